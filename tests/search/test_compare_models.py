"""Every quantized tensor beside its float original: the same figures as from all activations in NumPy."""

from __future__ import annotations

import json
import math

import numpy as np
import onnx
import onnxruntime
import pytest

import quarkfast
from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.demo.data import MODEL, load_images
from quarkfast.errors import ConfigError, ModelError
from support.tiny_models import tiny_model

TEXT = """g (float[N, 3, 8, 8] x) => (float[N, 5] y) {
    c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w, b)
    r = Relu (c)
    s = Add (r, x)
    p = GlobalAveragePool (s)
    f = Flatten (p)
    y = MatMul (f, m)
}"""


@pytest.fixture
def arrays(rng):
    shapes = {"w": (3, 3, 3, 3), "b": (3,), "m": (3, 5)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture
def x(rng):
    return rng.standard_normal((10, 3, 8, 8)).astype(np.float32)


@pytest.fixture
def models(tmp_path, arrays, x):
    """Writes a float model and quantizes it; returns both paths."""

    def write(preset="A8W8", **options):
        proto = tiny_model(TEXT, arrays, opset=17)
        onnx.save(proto, tmp_path / "float.onnx")
        quarkfast.quantize(tmp_path / "float.onnx", tmp_path / "q.onnx", preset, x, **options)
        return tmp_path / "float.onnx", tmp_path / "q.onnx"

    return write


def every_tensor(path, x, rows=10):
    """All tensors of a model, from a session without optimizations, run on so many rows at a time."""
    proto = onnx.load(path)
    codes = ("_QuantizeLinear_Output", "_quantized")  # NumPy has no bfloat16
    computed = [name for node in proto.graph.node for name in node.output if not name.endswith(codes)]
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in computed)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    quarkfast.register(options)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    parts = [session.run(computed, {"x": x[start : start + rows]}) for start in range(0, len(x), rows)]
    joined = (np.concatenate(part) if np.ndim(part[0]) else part[0] for part in zip(*parts, strict=True))
    return dict(zip(computed, joined, strict=True)) | {"x": x}


def ratio(one, other, axis=None):
    """SQNR in dB, over all values or along an axis."""
    rest = None if axis is None else tuple(index for index in range(one.ndim) if index != axis % one.ndim)
    one, other = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(divide="ignore"):
        return 10 * np.log10(np.square(one).sum(axis=rest) / np.square(one - other).sum(axis=rest))


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "A16W8", "XINT8", "BF16"])
@pytest.mark.parametrize("rows", [None, 3])
def test_figures_are_those_of_all_activations(models, x, preset, rows):
    path, quantized = models(preset, bias_correction=False)
    *inner, end = quarkfast.compare_models(path, quantized, x, batch_size=rows).tensors
    found = {each.tensor: each for each in inner}
    exact, other = (every_tensor(each, x, rows or 10) for each in (path, quantized))
    nodes = {node.output[0]: node for node in onnx.load(quantized).graph.node}
    readers = {node.input[0]: node for node in nodes.values() if node.op_type.endswith("DequantizeLinear")}
    seen = set()
    for node in nodes.values():
        if node.op_type.endswith("QuantizeLinear") and node.output[0] in readers:
            before, after = other[node.input[0]], other[readers[node.output[0]].output[0]]
            name = node.input[0].removesuffix("_QuantizeLinear_Input")
            each = found[name]
            seen.add(name)
            assert each.kind == "activation"
            # Sums in another order differ in their last places.
            assert each.rounding_sqnr == pytest.approx(ratio(before, after), abs=1e-9)
            assert each.sqnr == pytest.approx(ratio(exact[name], after), abs=1e-9)
            axis = 1 if after.ndim == 4 else -1
            if after.shape[axis] > 1:
                by_channel = ratio(exact[name], after, axis)
                least = sorted(range(len(by_channel)), key=lambda channel: by_channel[channel])[:3]
                assert [channel for channel, _ in each.worst_channels] == least
    assert {"x", "s", "p"} <= seen
    assert (end.tensor, end.kind) == ("y", "output")
    assert end.sqnr == pytest.approx(ratio(exact["y"], other["y"]), abs=1e-9)


def test_weights_are_compared_with_what_they_were(models, arrays, x):
    path, quantized = models("A8W8", per_channel=True, bias_correction=False)
    found = {each.tensor: each for each in quarkfast.compare_models(path, quantized, x).tensors}
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(quantized).graph.initializer}
    scale = constants["w_scale"].reshape(3, 1, 1, 1)
    codes = next(array for array in constants.values() if array.dtype == np.int8 and array.shape == (3, 3, 3, 3))
    rebuilt = codes.astype(np.float64) * scale
    assert found["w"].kind == "weight"
    assert found["w"].rounding_sqnr == found["w"].sqnr == pytest.approx(ratio(arrays["w"], rebuilt), abs=1e-9)
    assert found["w"].worst_channels[0][0] == int(np.argmin(ratio(arrays["w"], rebuilt, 0)))


@pytest.mark.parametrize("options", [{}, {"group_size": 16}, {"weight_symmetric": False, "group_size": 16}], ids=str)
def test_weights_in_blocks_are_compared(tmp_path, rng, options):
    """Blocks of four bits have scales of either sign; 40 rows are no multiple of a block."""
    m, x = rng.standard_normal((40, 5)).astype(np.float32), rng.standard_normal((4, 40)).astype(np.float32)
    path, quantized = tmp_path / "float.onnx", tmp_path / "q.onnx"
    onnx.save(tiny_model("g (float[N, 40] x) => (float[N, 5] y) { y = MatMul (x, m) }", {"m": m}, opset=21), path)
    quarkfast.quantize(path, quantized, "INT4_WO", **options)
    found = {each.tensor: each for each in quarkfast.compare_models(path, quantized, x).tensors}
    rebuilt = every_tensor(quantized, x)["m_DequantizeLinear_Output"]
    # The runtime multiplies in float32: each weight has one rounding more, 2^-24 of itself, under noise of 4 bits.
    assert found["m"].sqnr == pytest.approx(ratio(m, rebuilt), abs=1e-4)


def test_what_lies_beyond_the_codes_is_clipped(models, x):
    path, quantized = models("A8W8", tensors={"x": {"range": [-1.0, 1.0]}})
    found = {each.tensor: each for each in quarkfast.compare_models(path, quantized, x).tensors}
    scale = 2 / 255
    beyond = np.mean((x > 127.5 * scale) | (x < -128.5 * scale))
    assert found["x"].clipped == pytest.approx(beyond, abs=0.01)
    assert found["x"].used == 1
    assert found["s"].clipped == 0


def test_names_of_other_tools_are_traced(models, x):
    """A model whose weights have other names, as tools write them that fold first."""
    path, quantized = models("A8W8", bias_correction=False)
    known = {each.tensor: each.sqnr for each in quarkfast.compare_models(path, quantized, x).tensors}
    proto = onnx.load(quantized)
    constants = {each.name for each in proto.graph.initializer}
    for each in proto.graph.initializer:
        each.name = f"other_{each.name}"
    for node in proto.graph.node:
        node.input[:] = [f"other_{name}" if name in constants else name for name in node.input]
    for node in proto.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0].startswith("other_"):
            for reader in proto.graph.node:
                reader.input[:] = [f"other_{name}" if name == node.output[0] else name for name in reader.input]
            node.output[0] = f"other_{node.output[0]}"
    onnx.save(proto, quantized)
    assert {each.tensor: each.sqnr for each in quarkfast.compare_models(path, quantized, x).tensors} == known


# Tensors of it have 16 bits: those that a MaxPool and a Transpose move on go with it.
MOVED = """g (float[N, 3, 8, 8] x) => (float[N, 5] y) {
    c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w, b)
    r = Sigmoid (c)
    p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
    t = Transpose <perm = [0, 2, 3, 1]> (p)
    s = Mul (t, t)
    a = ReduceMean <axes = [1, 2], keepdims = 0> (s)
    y = MatMul (a, m)
}"""


def _mended(path, out, x, names, preset, **options):
    """SQNR of the output once tensors are quantized anew with int16."""
    tensors = {name: {"dtype": "int16"} for name in names}
    quarkfast.quantize(path, out, preset, x, tensors=tensors, **options)
    return quarkfast.compare_models(path, out, x).tensors[-1].sqnr


@pytest.mark.parametrize(("text", "per_channel"), [(TEXT, False), (MOVED, True)], ids=["False-plain", "True-moved"])
def test_gains_are_those_of_mending_by_hand(tmp_path, arrays, x, text, per_channel):
    """For each tensor and for all: nothing else changes, and what moves with a tensor does."""
    preset, options = "A8W8", {"per_channel": per_channel, "bias_correction": False, "method": "minmax", "strict": True}
    path, quantized = tmp_path / "float.onnx", tmp_path / "q.onnx"
    onnx.save(tiny_model(text, arrays, opset=17), path)
    quarkfast.quantize(path, quantized, preset, x, **options)
    found = quarkfast.compare_models(path, quantized, x, predict=6)
    told = found.prediction
    assert told.now == pytest.approx(found.tensors[-1].sqnr, abs=1e-9)
    assert [tensor for tensor, _ in told.alone] == [each.tensor for each in found.worst[:6]]
    names = [tensor for tensor, _ in told.alone]
    cases = [([tensor], sqnr) for tensor, sqnr in told.alone]
    cases += [(names, told.together), ([name for name, sqnr in told.alone if sqnr > told.now], told.gaining)]
    for mended, sqnr in cases:
        measured = _mended(path, tmp_path / "mended.onnx", x, mended, preset, **options)
        assert sqnr == pytest.approx(measured, abs=1e-3), mended


def test_with_samples_gains_are_those_of_the_very_model(models, x, tmp_path):
    """Whatever else follows from a change: ranges of another method, biases that make up for weights."""
    path, quantized = models("U8S8", method="minmse")
    told = quarkfast.compare_models(path, quantized, x, predict=4, calibration_data=x).prediction
    for tensor, sqnr in told.alone:
        measured = _mended(path, tmp_path / "mended.onnx", x, [tensor], "U8S8", method="minmse")
        assert sqnr == pytest.approx(measured, abs=1e-9)
    assert len(told.alone) == 4


def test_samples_without_a_prediction_are_refused(models, x):
    path, quantized = models()
    with pytest.raises(ConfigError, match="compare: expected predict beside calibration_data, got none"):
        quarkfast.compare_models(path, quantized, x, calibration_data=x)


def test_models_of_other_tools_cannot_be_quantized_anew(models, x):
    path, quantized = models()
    proto = onnx.load(quantized)
    del proto.metadata_props[:]
    onnx.save(proto, quantized)
    with pytest.raises(ConfigError, match="expected a model that quarkfast quantized, to quantize it anew, got one"):
        quarkfast.compare_models(path, quantized, x, predict=1, calibration_data=x)


@pytest.mark.parametrize("scheme", ["{", "3", "{}", "[" * 5000, '{"activation": 3}'], ids=len)
def test_models_whose_metadata_were_changed_cannot_be_quantized_anew(models, x, scheme):
    path, quantized = models()
    changed = onnx.load(quantized)
    next(entry for entry in changed.metadata_props if entry.key == "quarkfast.scheme").value = scheme
    with pytest.raises(ConfigError, match="compare: expected the scheme that quarkfast writes as"):
        quarkfast.compare_models(path, changed, x, predict=1, calibration_data=x)


def test_what_is_not_compared_is_named(models, arrays, x, tmp_path):
    _, quantized = models("A8W8")
    other = tiny_model(TEXT.replace("r = Relu (c)", "q = Relu (c) r = Abs (q)"), arrays | {"w": arrays["w"] * 3})
    onnx.save(other, tmp_path / "other.onnx")
    found = quarkfast.compare_models(tmp_path / "other.onnx", quantized, x)
    assert any(line == "'w': rewritten in floats before it was quantized" for line in found.not_compared)
    assert "w" not in {each.tensor for each in found.tensors}


@pytest.mark.parametrize(
    ("between", "options", "equalized"),
    [
        ("r = Relu (c)", {}, {"r"}),
        ("g = Sigmoid (c) r = Mul (c, g)", {"equalize_options": {"through_gates": True}}, {"c", "r"}),
        ("r = Relu (c)", {"equalize": False}, set()),
    ],
)
def test_equalized_tensors_are_not_held_against_others(tmp_path, rng, x, between, options, equalized):
    text = f"g (float[N, 3, 8, 8] x) => (float[N, 4, 8, 8] y) {{ c = Conv (x, w) {between} y = Conv (r, d) }}"
    octaves = np.float32(2.0) ** np.arange(-4, 4, dtype=np.float32)
    weights = {
        "w": rng.normal(size=(8, 3, 1, 1)).astype(np.float32) * octaves[:, None, None, None],
        "d": rng.normal(size=(4, 8, 1, 1)).astype(np.float32) / octaves[:, None, None],
    }
    onnx.save(tiny_model(text, weights, opset=17), tmp_path / "float.onnx")
    quarkfast.quantize(tmp_path / "float.onnx", tmp_path / "q.onnx", "XINT8", x, **options)
    found = quarkfast.compare_models(tmp_path / "float.onnx", tmp_path / "q.onnx", x)
    told = {f"{name!r}: equalization has multiplied its channels" for name in equalized}
    assert told == {line for line in found.not_compared if "equalization" in line}
    unknown = {each.tensor for each in found.tensors if each.sqnr is None}
    assert unknown & {"c", "r"} == equalized


def test_a_tensor_of_another_shape_is_named(models, arrays, x, tmp_path):
    _, quantized = models("A8W8")
    text = TEXT.replace("s = Add (r, x)", "t = Add (r, x) s = Concat <axis = 1> (t, x)")
    onnx.save(tiny_model(text, arrays | {"m": np.ones((6, 5), np.float32)}), tmp_path / "other.onnx")
    found = quarkfast.compare_models(tmp_path / "other.onnx", quantized, x)
    assert "'s': of another shape in the float model" in found.not_compared
    assert next(each for each in found.tensors if each.tensor == "s").sqnr is None


def test_bodies_keep_to_their_own_side(tmp_path, arrays, x):
    """Values of a body have the names of the float model's."""
    text = """g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) {
        c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w, b)
        y = If (choose) <
            then_branch = g1 () => (t) { u = Relu (c) t = Neg (u) },
            else_branch = g2 () => (e) { e = Abs (c) }>
    }"""
    constants = {"w": arrays["w"], "b": arrays["b"], "choose": np.array(True)}
    onnx.save(tiny_model(text, constants, opset=17), tmp_path / "float.onnx")
    quarkfast.quantize(tmp_path / "float.onnx", tmp_path / "q.onnx", "A8W8", x)
    found = quarkfast.compare_models(tmp_path / "float.onnx", tmp_path / "q.onnx", x)
    exact, other = (every_tensor(tmp_path / name, x)["y"] for name in ("float.onnx", "q.onnx"))
    assert found.tensors[-1].sqnr == pytest.approx(ratio(exact, other), abs=1e-9)


def test_samples_may_have_other_lengths(tmp_path, rng):
    """The last axis counts channels of most tensors of two dimensions, and steps of these."""
    text = "g (float[1, L] x) => (float[1, L] y) { s = Add (x, x) y = Sigmoid (s) }"
    feeds = [{"x": rng.standard_normal((1, length)).astype(np.float32)} for length in (5, 7, 5)]
    onnx.save(tiny_model(text), tmp_path / "float.onnx")
    quarkfast.quantize(tmp_path / "float.onnx", tmp_path / "q.onnx", "A8W8", feeds)
    found = quarkfast.compare_models(tmp_path / "float.onnx", tmp_path / "q.onnx", feeds)
    exact, other = (
        np.concatenate([every_tensor(tmp_path / name, feed["x"])["y"] for feed in feeds], axis=1)
        for name in ("float.onnx", "q.onnx")
    )
    assert found.tensors[-1].sqnr == pytest.approx(ratio(exact, other), abs=1e-9)
    assert found.tensors[-1].worst_channels == ()


def test_models_of_other_inputs_are_refused(models, x, tmp_path):
    _, quantized = models("A8W8")
    text = "g (float[N, 3, 8, 8] x, float[N] z) => (float[N, 3, 8, 8] y) { y = Relu (x) }"
    onnx.save(tiny_model(text), tmp_path / "other.onnx")
    feeds = [{"x": x, "z": np.zeros(10, np.float32)}]
    with pytest.raises(ModelError, match="compare: expected models of as many inputs, got 2 and 1"):
        quarkfast.compare_models(tmp_path / "other.onnx", quantized, feeds)


def test_real_models_of_every_kind(shared, tmp_path):
    """Weights that are folded into are found, and no output is worse than an evaluation says."""
    images = np.load(shared / "data" / "cifar10_calib.npz")["x"][:16].astype(np.float32) / 128 - 1
    path = shared / "models" / "resnet20_cifar10.onnx"
    for preset in ("A8W8", "XINT8", "DYNAMIC", "INT8_WO"):
        data = None if preset == "INT8_WO" else images
        quarkfast.quantize(path, tmp_path / "q.onnx", preset, data)
        found = quarkfast.compare_models(path, tmp_path / "q.onnx", images, batch_size=16)
        told = quarkfast.evaluate_models(path, tmp_path / "q.onnx", images, sums="exact").exact
        # A float model whose normalizations are folded differs from itself by roundings of float32.
        assert found.tensors[-1].sqnr == pytest.approx(told[0].sqnr, abs=1e-3)
        # The operators of dynamic quantization read codes as they are: no pair, nothing to trace.
        assert sum(each.kind == "weight" for each in found.tensors) >= (0 if preset == "DYNAMIC" else 20)


def test_the_command_prints_a_table_and_json(tmp_path, capsys):
    images = load_images()
    quarkfast.quantize(MODEL, tmp_path / "q.onnx", "A8W8", {"image": images.calibration})
    np.savez(tmp_path / "samples.npz", image=images.test[:20])
    arguments = ["compare", str(MODEL), str(tmp_path / "q.onnx"), "--data", str(tmp_path / "samples.npz")]
    assert main([*arguments, "--top", "3"]) == ExitCode.OK
    shown = capsys.readouterr().out
    assert "3 of" in shown
    assert "logits" in shown
    assert main([*arguments, "--json"]) == ExitCode.OK
    document = json.loads(capsys.readouterr().out)
    assert document["samples"] == 20
    assert document["tensors"][-1]["kind"] == "output"
    np.savez(tmp_path / "calibration.npz", image=images.calibration)
    again = ["--predict", "2", "--calibration-data", str(tmp_path / "calibration.npz")]
    assert main([*arguments, *again]) == ExitCode.OK
    assert "all that gain alone" in capsys.readouterr().out
    assert all(each["rounding_sqnr"] is None or math.isfinite(each["rounding_sqnr"]) for each in document["tensors"])


def test_a_missing_model_is_one_sentence(tmp_path, capsys):
    status = main(["compare", str(tmp_path / "none.onnx"), str(MODEL), "--data", str(tmp_path)])
    assert status == ExitCode.MODEL
    assert capsys.readouterr().err.count("\n") == 1


def test_codes_without_a_step_are_used_whole():
    text = """g (float[N, 4] x) => (float[N, 4] y) {
        q = QuantizeLinear (x, scale, zero)
        d = DequantizeLinear (q, scale, zero)
        y = Neg (d)
    }"""
    model = tiny_model(text, {"scale": np.float32(0), "zero": np.int8(0)})
    reference = tiny_model("g (float[N, 4] x) => (float[N, 4] y) { y = Neg (x) }")
    tensors = quarkfast.compare_models(reference, model, {"x": np.float32([[1, 2, 3, 4]])}).tensors
    assert [each.used for each in tensors if each.kind == "activation"] == [1.0]


def test_inputs_and_constants_that_are_outputs_too_are_compared():
    text = "g (float[N, 4] x) => (float[N, 4] y, float[N, 4] x, float[4] c) { y = Mul (x, c) }"
    model = tiny_model(text, {"c": np.ones(4, np.float32)})
    found = quarkfast.compare_models(model, model, {"x": np.float32([[1, 2, 3, 4]])}).tensors
    assert all(each.sqnr == math.inf for each in found)


def test_weights_without_channels_lose_nothing():
    model = tiny_model(
        """g (float[N, 3] x) => (float[A, 3] y) {
            w = DequantizeLinear <axis = 0> (c, s, z)
            y = Concat <axis = 0> (x, w)
        }""",
        {"c": np.zeros((0, 3), np.uint8), "s": np.ones(0, np.float32), "z": np.zeros(0, np.uint8)},
    )
    found = quarkfast.compare_models(model, model, [{"x": np.ones((2, 3), np.float32)}])
    assert [each.sqnr for each in found.tensors] == [math.inf, math.inf]
