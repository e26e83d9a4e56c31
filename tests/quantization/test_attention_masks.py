from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast.evaluate import sqnr
from support.processors import run_exact
from support.tiny_models import samples, tiny_model

SCORES = "g (float[N, 6, 8] q, float[8, 6] k, float[N, 1, 6] m) => (float[N, 6, 6] y) { s = MatMul(q, k) "


def _inputs(count=16):
    rng = np.random.default_rng(9)
    kept = (np.arange(6) < rng.integers(2, 7, count)[:, None, None]).astype(np.float32)
    return {"q": samples(count, (6, 8)), "k": samples(8, (6,)), "m": kept}


def _feeds():
    data = _inputs()
    return [{"q": data["q"][i : i + 1], "k": data["k"], "m": data["m"][i : i + 1]} for i in range(16)]


def _run(model, feed):
    return run_exact(model, feed)[0]


def _model(constant=False):
    if constant:
        text = "g (float[N, 6, 8] q, float[8, 6] k) => (float[N, 6, 6] y) { s = MatMul(q, k) t = Add(s, mask) "
        causal = np.triu(np.full((6, 6), -1e4, np.float32), 1)
        return tiny_model(text + "y = Softmax(t) }", {"mask": causal})
    text = SCORES + "i = Sub(one, m) mask = Mul(i, far) t = Add(s, mask) y = Softmax(t) }"
    return tiny_model(text, {"one": np.float32(1), "far": np.float32(-1e4)})


@pytest.mark.parametrize("constant", [False, True], ids=["computed", "constant"])
@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "A16W8", "XINT8"])
def test_a_mask_does_not_decide_the_scale_in_front_of_a_softmax(preset, constant):
    proto, feeds = _model(constant), _feeds()
    if constant:
        feeds = [{name: feed[name] for name in ("q", "k")} for feed in feeds]
    result = quarkfast.quantize(proto, preset=preset, calibration_data=feeds)
    expected, got = _run(proto.SerializeToString(), feeds[0]), _run(result.model_bytes, feeds[0])
    # With a scale of 10000 / 127 every score is 0 and the ratio 2 to 8 dB; power-of-two scales lose most of the rest.
    assert sqnr(expected, got) > 12
    assert any(note.startswith("tensor 'mask': values down to -10000 mask a Softmax") for note in result.summary.notes)


@pytest.mark.parametrize("far", [-1e4, np.finfo(np.float32).min], ids=["-1e4", "lowest"])
@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy", "minmse", "auto"])
@pytest.mark.parametrize(("preset", "least"), [("A8W8", 12), ("A16W8", 30), ("XINT8", 12)])
def test_a_mask_that_is_put_in_decides_no_scale_whatever_the_method(far, method, preset, least):
    text = SCORES + "c = Greater(m, half) t = Where(c, s, far) y = Softmax(t) }"
    proto, feeds = tiny_model(text, {"half": np.float32(0.5), "far": np.float32(far)}), _feeds()
    result = quarkfast.quantize(proto, preset=preset, calibration_data=feeds, method=method)
    expected, got = _run(proto.SerializeToString(), feeds[0]), _run(result.model_bytes, feeds[0])
    # With a scale of 10000 / 127 every score is 0 and the ratio 2 to 8 dB.
    assert sqnr(expected, got) > least
    assert any(note.startswith("tensor 'far': values down to -") for note in result.summary.notes)


def test_masked_positions_keep_their_weight_of_nothing():
    proto, feeds = _model(), _feeds()
    result = quarkfast.quantize(proto, calibration_data=feeds)
    for feed in feeds:
        got = _run(result.model_bytes, feed)
        assert not got[np.broadcast_to(feed["m"] == 0, got.shape)].any()


def test_a_sum_of_like_numbers_is_left_alone():
    text = SCORES + "t = Add(s, m) y = Softmax(t) }"
    assert quarkfast.quantize(tiny_model(text), calibration_data=_feeds()).summary.notes == ()


def test_a_large_negative_number_elsewhere_is_left_alone():
    text = SCORES + "i = Mul(m, far) y = Add(s, i) }"
    proto = tiny_model(text, {"far": np.float32(-1e4)})
    assert quarkfast.quantize(proto, calibration_data=_feeds()).summary.notes == ()


def test_a_mask_is_found_behind_whole_numbers():
    text = (
        SCORES
        + "w = Cast<to=7>(m) i = Sub(one, w) f = Cast<to=1>(i) mask = Mul(f, far) t = Add(s, mask) y = Softmax(t) }"
    )
    proto, feeds = tiny_model(text, {"one": np.int64(1), "far": np.float32(-1e4)}), _feeds()
    result = quarkfast.quantize(proto, preset="A8W8", calibration_data=feeds)
    assert any(note.startswith("tensor 'mask': values down to -10000 mask a Softmax") for note in result.summary.notes)
    assert sqnr(_run(proto.SerializeToString(), feeds[0]), _run(result.model_bytes, feeds[0])) > 12


def test_a_mask_is_found_where_its_shape_is_computed():
    text = (
        SCORES + "h = Shape(s) n = Equal(h, minus) d = Where(n, ones, h) i = Sub(one, m) f = Mul(i, far) "
        "mask = Expand(f, d) t = Add(s, mask) y = Softmax(t) }"
    )
    whole = {"minus": np.int64(-1), "ones": np.ones(3, np.int64)}
    proto = tiny_model(text, {"one": np.float32(1), "far": np.float32(-1e4), **whole})
    feeds = _feeds()
    result = quarkfast.quantize(proto, preset="A8W8", calibration_data=feeds)
    assert any("mask a Softmax" in note for note in result.summary.notes)
    assert sqnr(_run(proto.SerializeToString(), feeds[0]), _run(result.model_bytes, feeds[0])) > 12
