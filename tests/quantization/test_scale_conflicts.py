"""Detection heads: boxes in pixels and scores up to 1 do not share a scale."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from support.processors import run_exact
from support.tiny_models import samples, tiny_model

WEIGHTS = np.random.default_rng(3).normal(0, 0.3, (4, 3, 1, 1)).astype(np.float32)


def _head(tail, factor=640.0, shape="N, 8, 64"):
    text = f"""g (float[N, 3, 8, 8] x) => (float[{shape}] y) {{
        c = Conv(x, w)
        boxes = Mul(c, factor)
        scores = Sigmoid(c)
        both = Concat<axis = 1>(boxes, scores)
        {tail}
    }}"""
    arrays = {"w": WEIGHTS, "factor": np.float32(factor)}
    if "Conv(both" in tail:
        arrays["v"] = np.ones((1, 8, 1, 1), np.float32)
    if "shape" in tail:
        arrays["shape"] = np.int64([0, 8, 64])
    return tiny_model(text, arrays)


def _quantize(proto, preset):
    result = quarkfast.quantize(proto, preset=preset, calibration_data=samples(32))
    onnx.checker.check_model(result.proto, full_check=True)
    return result


def _scores(model):
    return run_exact(model, {"x": samples(16)})[0][:, 4:]


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8"])
def test_scores_beside_boxes_keep_their_resolution(preset):
    proto = _head("y = Reshape(both, shape)")
    result = _quantize(proto, preset)
    expected, got = _scores(proto.SerializeToString()), _scores(result.model_bytes)
    # Two roundings to 8 bits of values up to 1 and of the convolution they come from; with the boxes' scale (640 / 127
    # or more) every score would be 0.
    assert np.abs(expected - got).max() < 0.1
    assert [note for note in result.summary.notes if "they keep separate scales" in note]
    left = {node.op_type: node.reason for node in result.summary.left_float}
    assert left["Concat"].startswith("ranges of its inputs differ by a factor of")
    assert left["Reshape"] == left["Concat"]
    assert result.summary.quantized["Sigmoid"] == 1


LEVELS = """g (float[N, 3, 8, 8] x) => (float[N, 80] y) {
    c = Conv(x, w)
    p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]> (c)
    fine = Conv(c, v1)
    coarse = Conv(p, vb)
    last0 = Transpose<perm = [0, 2, 3, 1]> (fine)
    last1 = Transpose<perm = [0, 2, 3, 1]> (coarse)
    scores0 = Reshape(last0, rows)
    scores1 = Reshape(last1, rows)
    all = Concat<axis = 1> (scores0, scores1)
    y = Sigmoid(all)
}"""


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8"])
def test_scores_of_levels_that_a_function_reads_together_keep_their_scales(preset):
    generator = np.random.default_rng(5)
    single = generator.normal(0, 0.3, (1, 4, 1, 1))
    arrays = {"w": WEIGHTS, "v1": single.astype(np.float32), "vb": (30 * single).astype(np.float32)}
    proto = tiny_model(LEVELS, arrays | {"rows": np.int64([0, -1])})
    result = _quantize(proto, preset)
    expected, got = (run_exact(each, {"x": samples(16)})[0] for each in (proto.SerializeToString(), result.model_bytes))
    errors = np.abs(expected - got)[:, :64]
    # Of the error of a logit a Sigmoid makes a quarter at most. Logits up to 1 and what they are made of lose 1/128
    # each by their own scales, and by that of the coarse level, which reaches 30, 0.12: 0.03 behind the Sigmoid.
    assert errors.max() < 0.01
    left = {node.op_type for node in result.summary.left_float}
    assert {"Concat", "Sigmoid"} <= left
    (note,) = [note for note in result.summary.notes if "they keep separate scales" in note]
    assert note.startswith("node 'concat_")


def test_a_function_in_front_of_what_is_joined_is_no_part_of_the_head():
    text = LEVELS.replace("y = Sigmoid(all)", "y = Identity(all)").replace(
        "scores0 = Reshape(last0, rows)", "logits0 = Reshape(last0, rows) scores0 = Sigmoid(logits0)"
    )
    single = np.random.default_rng(5).normal(0, 0.3, (1, 4, 1, 1))
    arrays = {"w": WEIGHTS, "v1": single.astype(np.float32), "vb": (300 * single).astype(np.float32)}
    result = _quantize(tiny_model(text, arrays | {"rows": np.int64([0, -1])}), "A8W8")
    assert result.summary.quantized["Sigmoid"] == 1
    assert "Concat" in {node.op_type for node in result.summary.left_float}


@pytest.mark.parametrize("preset", ["A8W8", "XINT8"])
def test_ranges_that_go_together_share_a_scale(preset):
    result = _quantize(_head("y = Reshape(both, shape)", factor=2.0), preset)
    assert result.summary.quantized["Concat"] == 1
    assert not [note for note in result.summary.notes if "differ by a factor" in note]


def test_a_layer_that_reads_both_is_named():
    result = _quantize(_head("y = Conv(both, v)", shape="N, 1, 8, 8"), "A8W8")
    (note,) = [note for note in result.summary.notes if "differ by a factor" in note]
    assert "node 'concat_3'" in note
    assert "'conv_4' reads them with one scale" in note
    assert result.summary.quantized["Concat"] == 1


def test_sixteen_bits_hold_both():
    result = _quantize(_head("y = Reshape(both, shape)"), "A16W8")
    assert result.summary.quantized["Concat"] == 1
    assert not [note for note in result.summary.notes if "differ by a factor" in note]


def test_what_a_float_node_gives_such_a_head_is_not_rounded():
    proto = _head("y = Reshape(both, shape)")
    for node in proto.graph.node:
        if node.op_type == "Sigmoid":
            node.op_type = "Sin"
    model = _quantize(proto, "A8W8").proto
    rounded = {node.input[0] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    assert "boxes" in rounded
    assert "scores" not in rounded


YOLOX = """g (float[N, 3, 8, 8] x) => (float[N, 80, 6] y) {
    c = Conv(x, w)
    p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]> (c)
    box0 = Conv(c, vb)
    object0 = Conv(c, v1)
    class0 = Conv(c, v1)
    objects0 = Sigmoid(object0)
    classes0 = Sigmoid(class0)
    level0 = Concat<axis = 1> (box0, objects0, classes0)
    box1 = Conv(p, v4)
    object1 = Conv(p, v1)
    class1 = Conv(p, v1)
    objects1 = Sigmoid(object1)
    classes1 = Sigmoid(class1)
    level1 = Concat<axis = 1> (box1, objects1, classes1)
    flat0 = Reshape(level0, shape)
    flat1 = Reshape(level1, shape)
    all = Concat<axis = 2> (flat0, flat1)
    y = Transpose<perm = [0, 2, 1]> (all)
}"""

SSD = """g (float[N, 3, 8, 8] x) => (float[N, 80, 8] y) {
    c = Conv(x, w)
    p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]> (c)
    loc0 = Conv(c, vb)
    loc1 = Conv(p, vb)
    conf0 = Conv(c, v4)
    conf1 = Conv(p, v4)
    last0 = Transpose<perm = [0, 2, 3, 1]> (loc0)
    last1 = Transpose<perm = [0, 2, 3, 1]> (loc1)
    last2 = Transpose<perm = [0, 2, 3, 1]> (conf0)
    last3 = Transpose<perm = [0, 2, 3, 1]> (conf1)
    locs0 = Reshape(last0, rows)
    locs1 = Reshape(last1, rows)
    confs0 = Reshape(last2, rows)
    confs1 = Reshape(last3, rows)
    locs = Concat<axis = 1> (locs0, locs1)
    confs = Concat<axis = 1> (confs0, confs1)
    scores = Softmax<axis = 2> (confs)
    y = Concat<axis = 2> (locs, scores)
}"""


def _detector(text):
    generator = np.random.default_rng(5)
    narrow = {name: generator.normal(0, 0.3, (rows, 4, 1, 1)) for name, rows in (("v1", 1), ("v4", 4))}
    arrays = {"w": WEIGHTS, "vb": 300 * narrow["v4"], **narrow}
    arrays = {name: values.astype(np.float32) for name, values in arrays.items()}
    flat = {"shape": np.int64([0, 6, -1])} if "shape)" in text else {"rows": np.int64([0, -1, 4])}
    return tiny_model(text, {name: each for name, each in (arrays | flat).items() if f", {name})" in text})


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8"])
def test_levels_of_a_yolox_head_are_joined_in_float(preset):
    proto = _detector(YOLOX)
    result = _quantize(proto, preset)
    left = [node.name for node in result.summary.left_float]
    joined = [node.name for node in result.proto.graph.node if node.op_type in ("Concat", "Reshape", "Transpose")]
    assert sorted(left) == sorted(joined)
    (note,) = [note for note in result.summary.notes if "they keep separate scales" in note]
    assert note.startswith("nodes 'concat_7', 'concat_13', 'concat_16': ranges of their inputs differ by a factor of")
    expected, got = (run_exact(each, {"x": samples(16)})[0] for each in (proto.SerializeToString(), result.model_bytes))
    # Roundings to 8 bits of the scores, of what Sigmoid reads and of its convolutions; with the scale of the boxes
    # (300 / 127 or more) every score would be 0 or more than 2.
    assert np.abs(expected - got)[..., 4:].max() < 0.1


@pytest.mark.parametrize("preset", ["A8W8", "U8S8"])
def test_boxes_and_scores_of_an_ssd_are_joined_in_float(preset):
    proto = _detector(SSD)
    result = _quantize(proto, preset)
    left = {node.name for node in result.summary.left_float}
    last = next(node for node in result.proto.graph.node if node.output[0] == "y")
    assert last.op_type == "Concat"
    assert last.name in left
    (scores,) = (node for node in result.proto.graph.node if node.op_type == "Softmax")
    assert scores.name not in left, "it computes"
    expected, got = (run_exact(each, {"x": samples(16)})[0] for each in (proto.SerializeToString(), result.model_bytes))
    assert np.abs(expected - got)[..., 4:].max() < 0.1


def test_what_a_layer_reads_behind_a_head_keeps_one_scale():
    text = YOLOX.replace("y = Transpose<perm = [0, 2, 1]> (all)", "t = Transpose<perm = [0, 2, 1]> (all) y = Mul(t, t)")
    result = _quantize(_detector(text), "A8W8")
    assert result.summary.quantized["Concat"] == 3
    notes = [note for note in result.summary.notes if "reads them with one scale" in note]
    assert notes
