"""What a whole model loses where pairs of products saturate."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.evaluate.saturated_sums import SaturatingModel
from support.processors import saturates
from support.tiny_models import samples, tiny_model

CHAIN = """g (float[N, 4, 6, 6] x) => (float[N, 8, 6, 6] y) {
    a = Conv<pads = [1, 1, 1, 1]>(x, u)
    b = Relu(a)
    c = Conv(b, v)
    y = Relu(c)
}"""
MEAN = np.float32([0.485, 0.456, 0.406])[:, None, None]
STD = np.float32([0.229, 0.224, 0.225])[:, None, None]


def _chain(**options):
    rng = np.random.default_rng(5)
    shapes = {"u": (8, 4, 3, 3), "v": (8, 8, 1, 1)}
    proto = tiny_model(CHAIN, {name: rng.normal(0.1, 0.3, shape).astype(np.float32) for name, shape in shapes.items()})
    feed = {"x": np.abs(samples(8, (4, 6, 6)))}
    result = quarkfast.quantize(proto, preset="U8S8", calibration_data=feed, **{"portable": False, **options})
    return result.model_bytes, [feed], proto.SerializeToString()


def test_a_sum_of_two_full_products_is_cut_in_half():
    proto = tiny_model(
        "g (float[N, 8] x) => (float[N, 4] y) { m = MatMul(x, w) y = Relu(m) }",
        {"w": np.float32([[1, 0, 0, 0]] * 2 + [[0, 0, 0, 0]] * 6)},
    )
    feed = {"x": np.ones((4, 8), np.float32)}
    result = quarkfast.quantize(proto, preset="U8S8", calibration_data=feed, portable=False)
    found = quarkfast.verify(result.model_bytes, [feed], proto.SerializeToString())
    # 255 * 127 twice is 64770, of which 32767 are left: 2 becomes 1.0118, and half a step of 2 / 255 more or less.
    least, most = (20 * math.log10(2 / (2 - 2 * 32767 / 64770 + rounding)) for rounding in (1 / 255, -1 / 255))
    assert found.saturated_sums.layers == 1
    assert least <= found.saturated_sums.saturated <= most
    assert found.saturated_sums.whole > 40
    assert "dB there" in found.rows()[-1][1]


def test_a_layer_behind_another_reads_what_that_one_saturated():
    found = quarkfast.verify(*_chain())
    assert found.saturated_sums.layers == len(found.may_saturate) == 2
    assert found.saturated_sums.saturated < found.saturated_sums.whole
    assert json.loads(json.dumps(found.to_dict()))["saturated_sums"] == found.saturated_sums.to_dict()


@pytest.mark.parametrize(
    "text", ["c = Conv<pads = [1, 1, 1, 1]>(x, w) y = Relu(c)", "c = Conv<group = 2>(x, w) y = Relu(c)"]
)
def test_a_default_session_gives_the_sums_that_this_processor_is_known_for(text):
    groups = 2 if "group" in text else 1
    weight = np.random.default_rng(5).normal(0.1, 0.3, (8, 8 // groups, 3, 3)).astype(np.float32)
    proto = tiny_model(f"g (float[N, 8, 9, 9] x) => (float[N, A, B, C] y) {{ {text} }}", {"w": weight})
    x = np.random.default_rng(6).uniform(0.5, 1, (3, 8, 9, 9)).astype(np.float32)
    model = quarkfast.quantize(proto, preset="U8S8", calibration_data=x, equalize=False, portable=False).proto
    whole, saturated = SaturatingModel(model, ["conv_0"]).run({"x": x})
    assert not np.array_equal(whole, saturated)
    got = ort.inference_session(model.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_array_equal(got, saturated if saturates() else whole)


def test_activations_that_are_small_lose_nothing():
    model, feeds, reference = _chain()
    # A hundredth of the largest activation is a code of 3 at most, and 2 * 3 * 127 is far from 32767; the second layer
    # reads sums of that.
    found = quarkfast.verify(model, [{"x": feeds[0]["x"] * 0.01}], reference).saturated_sums
    assert found.saturated == found.whole


def test_without_feeds_or_a_reference_nothing_is_simulated():
    model, feeds, _ = _chain()
    assert quarkfast.verify(model).saturated_sums is None
    assert quarkfast.verify(model).divergence is None
    assert quarkfast.verify(model, feeds).saturated_sums is None
    assert quarkfast.verify(model, feeds).divergence is not None


def test_weights_of_seven_bits_need_no_simulation():
    assert quarkfast.verify(*_chain(reduce_range=True)).saturated_sums is None


def test_weights_that_gave_way_lose_nothing():
    found = quarkfast.verify(*_chain(portable=True))
    assert found.reductions
    assert found.saturated_sums is None or found.saturated_sums.saturated == found.saturated_sums.whole


def test_activations_of_int8_are_multiplied_as_uint8():
    # 1 becomes the code 127, which is 255 there; its neighbours as well, so each pair of 255 * 127 is cut.
    proto = tiny_model(
        "g (float[N, 8, 1, 1] x) => (float[N, 4, 1, 1] y) { y = Conv(x, w) }",
        {"w": np.concatenate([np.ones((4, 2, 1, 1)), np.zeros((4, 6, 1, 1))], axis=1).astype(np.float32)},
    )
    feed = {"x": np.ones((4, 8, 1, 1), np.float32)}
    result = quarkfast.quantize(proto, preset="A8W8", calibration_data=feed)
    found = quarkfast.verify(result.model_bytes, [feed], proto.SerializeToString())
    # The sums 127 * 127 twice lose 64770 - 32767 each, which is their own size within a hundredth.
    assert found.saturated_sums.layers == 1
    assert found.saturated_sums.whole > 40
    lost = (64770 - 32767) / (2 * 127 * 127)
    assert found.saturated_sums.saturated == pytest.approx(-20 * math.log10(lost), abs=0.1)


@pytest.mark.parametrize("options", [{"portable": False}, {"reduce_range": True}, {}], ids=str)
def test_a_trained_network_loses_decibels_unless_its_weights_give_way(shared, options):
    model = shared / "models" / "resnet20_cifar10.onnx"
    with np.load(shared / "data" / "cifar10_calib.npz") as data:
        x = ((data["x"][:36].astype(np.float32) / 255 - MEAN) / STD).astype(np.float32)
    result = quarkfast.quantize(model, preset="U8S8", calibration_data={"input": x[:32]}, **options)
    found = quarkfast.verify(result.model_bytes, [{"input": x[32:]}], model)
    if "reduce_range" in options:
        assert not found.may_saturate
        return
    assert found.saturated_sums.layers == len(found.may_saturate) > 5
    if options:
        assert found.saturated_sums.saturated < found.saturated_sums.whole
    else:
        assert found.saturated_sums.saturated == found.saturated_sums.whole
