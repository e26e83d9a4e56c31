from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare_for_weights
from support.tiny_models import operators_of, tiny_model

# A body whose Identity reads a value of the graph around it, as expansions of AffineGrid have it.
OUTSIDE = """g (float[4] x, bool wanted) => (float[4] y) {
    a = Abs (x)
    y = If (wanted) <
        then_branch = yes () => (float[4] p) { p = Identity (a) },
        else_branch = no () => (float[4] q) { q = Identity (c) }
    >
}"""

# Sums so far, as the state and as what is gathered: two outputs of a body that are one value without the Identity.
SCAN = """g (float[2] start, float[3, 2] x) => (float[2] last, float[3, 2] all) {
    last, all = Scan <
        num_scan_inputs = 1,
        body = step (float[2] before, float[2] next) => (float[2] sum, float[2] kept) {
            sum = Add (before, next)
            kept = Identity (sum)
        }
    > (start, x)
}"""

# The state goes through as it is: an output of a body that is its input without the Identity.
UNCHANGED = """g (float[2] start, float[3, 2] x) => (float[2] last, float[3, 2] all) {
    last, all = Scan <
        num_scan_inputs = 1,
        body = step (float[2] before, float[2] next) => (float[2] after, float[2] sum) {
            sum = Add (before, next)
            after = Identity (before)
        }
    > (start, x)
}"""

# And with bodies out of the way: an input, a constant, one tensor twice, and one in front of and behind a node.
PLAIN = """g (float[4] x) => (float[4] same, float[4] one, float[4] two, float[4] constant) {
    same = Identity (x)
    a = Identity (x)
    b = Abs (a)
    one = Identity (b)
    two = Identity (b)
    constant = Identity (c)
}"""
STATE = {"start": np.zeros(2, np.float32), "x": np.arange(6, dtype=np.float32).reshape(3, 2)}
FLOATS = np.float32([-1, 2, -3, 4])
CASES = {
    "a value of the graph around it": (OUTSIDE, {"x": FLOATS, "wanted": np.array(True)}),
    "a constant of the graph around it": (OUTSIDE, {"x": FLOATS, "wanted": np.array(False)}),
    "two outputs of a body": (SCAN, STATE),
    "an input of a body": (UNCHANGED, STATE),
    "a graph of its own": (PLAIN, {"x": FLOATS}),
}


def _run(data: bytes, feed):
    options = ort.session_options(optimize=False)
    return [each.tobytes() for each in ort.run(ort.inference_session(data, options), feed)]


@pytest.mark.parametrize(("text", "feed"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("preset", ["INT8_WO", "BF16_WO"])
@pytest.mark.filterwarnings("ignore:quantize. the model has no weight that can be stored so")
def test_a_model_without_weights_computes_what_it_did(text, feed, preset):
    proto = tiny_model(text, {"c": np.float32([1, 2, 3, 4])} if "(c)" in text else {})
    result = quarkfast.quantize(proto, preset=preset)
    assert _run(result.model_bytes, feed) == _run(proto.SerializeToString(), feed)
    assert [value.name for value in result.proto.graph.output] == [value.name for value in proto.graph.output]


def test_an_identity_goes_where_nothing_needs_it():
    prepared = prepare_for_weights(load_model(tiny_model(PLAIN, {"c": FLOATS})), 13)
    # That behind Abs gives its name to what it read; those of the input and of the second output stay.
    assert sorted(operators_of(prepared)) == ["Abs", "Identity", "Identity"]
    assert [node.outputs[0].name for node in prepared.graph if node.op_type == "Abs"] == ["one"]


def test_an_output_keeps_the_type_it_was_declared_with():
    text = "g (float[N, 4] x) => (float[batch, 4] y) { a = Abs (x) y = Identity (a) }"
    prepared = prepare_for_weights(load_model(tiny_model(text)), 13)
    assert operators_of(prepared) == ["Abs"]
    assert [str(size) for size in prepared.graph.outputs[0].shape] == ["batch", "4"]


def test_ranks_that_contradict_each_other_are_left_as_they_are():
    proto = tiny_model("g (float[2, 2] x) => (float[A, B] y) { a = Abs (x) b = Identity (a) y = Neg (b) }")
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [2, 2]))
    proto.graph.value_info.append(onnx.helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [4]))
    assert operators_of(prepare_for_weights(load_model(proto), 13)) == ["Abs", "Neg"]
