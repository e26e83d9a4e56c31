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
