"""Cubic Resize: no default session of a supported onnxruntime finds codes of 8 bits around one."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast import ort
from support.tiny_models import tiny_model

BETWEEN = """g (float[1, 3, 8, 8] x) => (float[1, 3, A, B] y{results}) {{
    c = Conv(x, w)
    {in_front}
    r = Resize<mode = "{mode}">(m, , scales)
    y = Conv(r, w)
}}"""
CONSTANTS = {
    "w": np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1),
    "scales": np.float32([1, 1, 2, 2]),
    "shape": np.int64([1, 3, 8, 8]),
    "axis": np.int64([0]),
}
IN_FRONT = {
    "nothing": "m = Identity(c)",
    "a transposition": "m = Transpose<perm = [0, 1, 3, 2]>(c)",
    "a pool and a shape": "p = MaxPool<kernel_shape = [1, 1]>(c) m = Reshape(p, shape)",
    "two shapes": "s = Squeeze(c, axis) m = Unsqueeze(s, axis)",
}
# Values stay below 1.3; an optimized sum may be rounded to the next of 127 codes, in the Resize's input and in y.
STEPS = 2 * 1.3 / 127
REASON = "onnxruntime before 1.27 has no cubic Resize for codes of 8 bits"


def _quantized(in_front, preset, mode="cubic", results=""):
    text = BETWEEN.format(in_front=in_front, mode=mode, results=results)
    used = {name: array for name, array in CONSTANTS.items() if name in text}
    return quarkfast.quantize(tiny_model(text, used), preset=preset, calibration_data=_feed())


def _feed():
    # Between 1 and -1 everywhere, and so is what is interpolated: all activations have one scale.
    return [{"x": np.tile(np.float32([1, -1]).repeat(4), (1, 3, 8, 1))}]


def _sources(result):
    """Returns the operators in front of the Resize, nearest first, up to the Conv or the pair."""
    producers = {name: node for node in result.proto.graph.node for name in node.output}
    (node,) = (node for node in result.proto.graph.node if node.op_type == "Resize")
    found = []
    while not found or found[-1] not in ("Conv", "DequantizeLinear"):
        node = producers[node.input[0]]
        found.append(node.op_type)
    return found


@pytest.mark.parametrize("preset", ["XINT8", "A8W8", "U8S8"])
@pytest.mark.parametrize("in_front", IN_FRONT.values(), ids=IN_FRONT)
def test_it_reads_floats_in_eight_bits_and_runs_in_a_default_session(in_front, preset):
    result = _quantized(in_front, preset)
    assert _sources(result)[-1] == "Conv"
    assert {left.op_type: left.reason for left in result.summary.left_float}["Resize"] == REASON
    expected = ort.run(ort.inference_session(result.model_bytes, ort.session_options(optimize=False)), _feed()[0])[0]
    found = ort.run(ort.inference_session(result.model_bytes, ort.session_options(optimize=True)), _feed()[0])[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=STEPS)


def test_what_others_read_has_a_pair_for_them():
    result = _quantized("m = Identity(c) z = Conv(c, w)", "XINT8", results=", float[1, 3, 8, 8] z")
    readers = [node.op_type for node in result.proto.graph.node if "c" in node.input]
    assert sorted(readers) == ["QuantizeLinear", "Resize"]


def test_no_pair_is_left_that_nothing_reads():
    result = _quantized("m = Transpose<perm = [0, 1, 3, 2]>(c)", "XINT8")
    read = {name for node in result.proto.graph.node for name in node.input} | {"y"}
    assert all(read.intersection(node.output) for node in result.proto.graph.node)


@pytest.mark.parametrize(("preset", "mode"), [("A16W8", "cubic"), ("BF16", "cubic"), ("XINT8", "linear")])
def test_other_types_and_modes_are_quantized(preset, mode):
    result = _quantized("m = Identity(c)", preset, mode)
    assert result.summary.quantized["Resize"] == 1
    assert not result.summary.left_float


# The positions of a transformer for images, trained for another size: what moves them reads how many channels there are
# from other tensors, so that they are no constant here, while onnxruntime finds out. Their size is read as well.
POSITIONS = """g (float[1, 4, 5, 5] x) => (float[1, 25, 4] y) {
    n = Shape(x)
    c = Gather(n, one)
    v = Unsqueeze(c, zero)
    s = Concat<axis = 0>(single, side, side, v)
    t = Reshape(table, s)
    p = Transpose<perm = [0, 3, 1, 2]>(t)
    k = Shape(p)
    o = Slice(k, zero, two)
    z = Concat<axis = 0>(o, wanted)
    r = Resize<mode = "cubic", cubic_coeff_a = -0.75>(p, , , z)
    q = Transpose<perm = [0, 2, 3, 1]>(r)
    e = Reshape(q, flat)
    h = Conv(x, w)
    j = Reshape(h, rows)
    i = Transpose<perm = [0, 2, 1]>(j)
    y = Add(i, e)
}"""


@pytest.mark.parametrize("preset", ["A8W8", "A16W8", "XINT8", "U8S8"])
def test_a_table_of_positions_is_resized_in_a_default_session(preset, rng):
    arrays = {
        "one": np.int64(1), "zero": np.int64([0]), "two": np.int64([2]), "single": np.int64([1]), "side": np.int64([8]),
        "wanted": np.int64([5, 5]), "flat": np.int64([1, -1, 4]), "rows": np.int64([1, 4, -1]),
        "table": rng.normal(size=(1, 64, 4)).astype(np.float32), "w": rng.normal(size=(4, 4, 1, 1)).astype(np.float32),
    }  # fmt: skip
    model = tiny_model(POSITIONS, arrays, opset=14)
    del model.graph.input[0].type.tensor_type.shape.dim[:]
    for name in ("N", "C", "H", "W"):
        model.graph.input[0].type.tensor_type.shape.dim.add().dim_param = name
    feeds = [{"x": each} for each in rng.normal(size=(4, 1, 4, 5, 5)).astype(np.float32)]
    result = quarkfast.quantize(model, None, preset, feeds)
    expected = ort.run(ort.inference_session(result.model_bytes, ort.session_options(optimize=False)), feeds[0])[0]
    found = ort.run(ort.inference_session(result.model_bytes, ort.session_options(optimize=True)), feeds[0])[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=0.2)
