"""What onnxscript's optimizer does wrong, and that a failure of it costs nothing but what it would have folded."""

from __future__ import annotations

import warnings

import numpy as np
import onnxscript.optimizer
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.deferred import ir
from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import operators_of, samples, tiny_model

# Sequences in an operator set older than that of what the optimizer writes for them, and one split by an input.
SEQUENCES = {
    "ConcatFromSequence": (
        """g (float[2, 3] x) => (float[A, B, C] y) {
            a = Add (x, x)
            s = SequenceConstruct (a, x)
            y = ConcatFromSequence <axis = 0, new_axis = 1> (s)
        }""",
        12,
    ),
    "SplitToSequence": (
        """g (float[2, 3] x) => (float[A, B] y) {
            a = Add (x, x)
            s = SplitToSequence <axis = 1> (a, two)
            y = SequenceAt (s, one)
        }""",
        12,
    ),
    "SplitToSequence by an input": (
        """g (float[2, 3] x, int64 part) => (float[A, B] y) {
            a = Add (x, x)
            s = SplitToSequence <axis = 1> (a, part)
            b = SequenceAt (s, one)
            c = Neg (minus)
            y = Mul (b, c)
        }""",
        18,
    ),
}
CONSTANTS = {"one": np.int64(1), "two": np.int64(2), "minus": np.float32(-2)}


def _model(name):
    text, opset = SEQUENCES[name]
    return tiny_model(text, {key: array for key, array in CONSTANTS.items() if key in text}, opset)


def _run(data, feed):
    return ort.run(ort.inference_session(data), feed)[0]


@pytest.mark.parametrize("preset", ["U8S8", "BF16"])  # the oldest operator sets that carry them are 10 and 13
@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_run_as_they_did(name, preset):
    proto = _model(name)
    feed = {"x": samples(2, (3,))} | ({"part": np.array(2)} if "input" in name else {})
    result = quarkfast.quantize(proto, preset=preset, calibration_data=[feed])
    assert result.summary.quantized
    expected = _run(proto.SerializeToString(), feed)
    # uint8 codes have 255 steps from the least value to the largest, bfloat16 8 bits: coarser than 2^-7 are neither,
    # and two roundings follow each other.
    np.testing.assert_allclose(
        _run(result.model_bytes, feed), expected, rtol=0, atol=2**-7 * 2 * np.abs(expected).max()
    )


def test_what_is_beside_such_a_sequence_is_folded():
    prepared = prepare(load_model(_model("SplitToSequence by an input")), 13)
    assert operators_of(prepared) == ["Add", "SplitToSequence", "SequenceAt", "Mul"]
    assert isinstance(prepared.graph[1].outputs[0].type, ir.SequenceType)


@pytest.mark.parametrize(("expression", "kept"), [
    ("Bernoulli (half)", True),
    ("Dropout (half, half, yes)", True),
    ("Dropout (half, half, no)", False),
    ("Dropout (half, half)", False),
])  # fmt: skip
def test_random_numbers_are_drawn_when_the_model_runs(expression, kept):
    constants = {"half": np.float32(0.5), "yes": np.array(True), "no": np.array(False)}
    used = {name: array for name, array in constants.items() if name in expression}
    proto = tiny_model(f"g (float[2] x) => (float[2] y) {{ r = {expression} y = Add (x, r) }}", used)
    operators = operators_of(prepare(load_model(proto), 13))
    assert operators == ([expression.split()[0], "Add"] if kept else ["Add"])


def _fail(model, should_fold):
    """Fails as an evaluator of the optimizer does: some of what it wanted to write reads the model already."""
    ir.node("Split", [model.graph.inputs[0]])
    raise RuntimeError("Error during constant folding for node 'abs_0' (::Abs)")


@pytest.mark.parametrize("preset", ["BF16", "INT8_WO"])
def test_a_failure_leaves_the_model_whole_and_is_told(monkeypatch, preset):
    monkeypatch.setattr(onnxscript.optimizer, "fold_constants_ir", _fail)
    text = "g (float[N, 32] x) => (float[N, 32] y) { a = Cast <to = 1> (x) b = Abs (a) y = MatMul (b, w) }"
    proto = tiny_model(text, {"w": np.eye(32, dtype=np.float32)})
    result = quarkfast.quantize(proto, preset=preset)
    (note,) = (each for each in result.summary.notes if each.startswith("model: "))
    assert note == (
        "model: constants are folded in a part of it, because onnxscript failed: "
        "Error during constant folding for node 'abs_0' (::Abs)"
    )
    x = np.ones((1, 32), np.float32)
    np.testing.assert_allclose(_run(result.model_bytes, {"x": x}), x, rtol=0, atol=2**-7)  # a step is 1 / 127.5


def test_warnings_that_are_errors_fold_no_less(monkeypatch):
    fold = onnxscript.optimizer.fold_constants_ir

    def warn(model, should_fold):
        # As onnx 1.17's Range does with NumPy 2.
        warnings.warn(
            "Conversion of an array with ndim > 0 to a scalar is deprecated", DeprecationWarning, stacklevel=2
        )
        fold(model, should_fold=should_fold)

    monkeypatch.setattr(onnxscript.optimizer, "fold_constants_ir", warn)
    constants = {"from": np.int64(0), "to": np.int64(3), "by": np.int64(1)}
    text = "g (float[3] x) => (float[3] y) { r = Range (from, to, by) i = Cast <to = 1> (r) y = Add (x, i) }"
    proto = tiny_model(text, constants)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert operators_of(prepare(load_model(proto), 13)) == ["Add"]


def test_a_failure_leaves_no_reader_behind(monkeypatch):
    monkeypatch.setattr(onnxscript.optimizer, "fold_constants_ir", _fail)
    proto = tiny_model("g (float[N, 32] x) => (float[N, 32] y) { a = Abs (x) y = Cast <to = 1> (a) }")
    prepared = prepare(load_model(proto), 13)
    assert [node.op_type for node in prepared.graph.inputs[0].consumers()] == ["Abs"]


def test_what_a_branch_that_is_gone_read_is_gone_too():
    text = """g (float[3] x) => (float[3] y) {
        y = If (always) <
            then_branch = t () => (float[3] a) { a = Add (x, near) },
            else_branch = e () => (float[3] b) { b = Add (x, far) }
        >
    }"""
    constants = {"always": np.bool_(True), "near": np.float32([1, 2, 3]), "far": np.float32([4, 5, 6])}
    prepared = prepare(load_model(tiny_model(text, constants)), 17)
    assert operators_of(prepared) == ["Add"]
    assert list(prepared.graph.initializers) == ["near"]


def test_nothing_is_logged(capfd):
    prepare(load_model(_model("ConcatFromSequence")), 18)
    assert capfd.readouterr() == ("", "")
