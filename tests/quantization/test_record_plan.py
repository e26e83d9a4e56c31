"""What is recorded of tensors and nodes, against what the arrays themselves say."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from support.tiny_models import conv_relu_model, samples, tiny_model


def _records(proto, data=None, **options):
    return quarkfast.quantize(proto, calibration_data=data, **options).summary.records


def test_nodes_have_their_tensors_and_why_they_stay_float():
    found = _records(conv_relu_model(), samples(), exclude=["relu_1"])
    by_name = {node.name: node for node in found.nodes}
    assert [node.op_type for node in found.nodes] == ["Conv", "Relu", "Conv", "Add"]
    assert by_name["conv_0"].state == "quantized"
    assert set(by_name["conv_0"].inputs) == {"x", "w1", "b1"}
    assert by_name["conv_0"].outputs == ("c1",)
    assert by_name["relu_1"].state == "float"
    assert by_name["relu_1"].reason
    assert {tensor.kind for tensor in found.tensors.values()} == {"activation", "weight", "bias"}


def test_an_activation_has_what_samples_showed_and_what_codes_reach():
    data = samples(64)
    data[0, 0, 0, :] = 1e3
    x = _records(conv_relu_model(), data, method="percentile", percentile=99.0).tensors["x"]
    assert x.seen == (data.min(), data.max())
    assert x.kept[0] == pytest.approx(-x.kept[1])
    assert (x.kept[1], x.zero_point) == (pytest.approx(127 * x.scale), 0)
    assert int(x.bins.counts.sum()) == data.size
    assert x.bins.counts.size <= 64
    assert x.bins.low <= data.min() < x.bins.low + x.bins.width
    # Bins count that lie outside as a whole; they are 1/2 wide, since 2048 of them reach to 1000.
    cut = [np.mean(np.abs(data) > x.kept[1] + x.scale / 2 + each) for each in (0.5, 0.0)]
    assert 0 < cut[0] <= x.clipped <= cut[1]


def test_a_histogram_is_that_of_the_values():
    data = samples(64)
    bins = _records(conv_relu_model(), data, method="percentile").tensors["x"].bins
    edges = bins.low + bins.width * np.arange(bins.counts.size + 1)
    assert np.abs(bins.counts.astype(int) - np.histogram(data, edges)[0]).max() <= np.sum(np.isin(data, edges))


def test_without_histograms_there_are_ranges():
    x = _records(conv_relu_model(), samples(), search_ranges=False).tensors["x"]
    assert x.bins is None
    assert x.clipped is None
    assert x.seen[0] < x.seen[1]


@pytest.mark.parametrize(
    "options",
    [{}, {"min_sqnr": 5.0}, {"mixed_precision": {"activation": {"dtype": "int16"}, "share": 0.5}}],
    ids=["plain", "target", "mixed"],
)
def test_histograms_are_gathered_on_request_and_change_nothing(options):
    plain, shown = (
        quarkfast.quantize(
            conv_relu_model(), calibration_data=samples(16), histograms=each, search_ranges=False, **options
        )
        for each in (False, True)
    )
    assert plain.model_bytes == shown.model_bytes
    assert plain.summary.records.tensors["x"].bins is None
    assert shown.summary.records.tensors["x"].bins is not None
    assert shown.summary.records.tensors["x"].clipped == 0


def test_channels_of_a_weight_have_their_extremes_and_what_their_codes_reach(rng):
    weight = (rng.normal(size=(5, 3, 3, 3)) * np.array([1, 2, 3, 4, 100]).reshape(-1, 1, 1, 1)).astype(np.float32)
    model = tiny_model("g (float[N, 3, 8, 8] x) => (float[A, B, C, D] y) { y = Conv (x, w) }", {"w": weight})
    whole = _records(model, samples(), strict=True, equalize=False).tensors["w"]
    assert whole.channels.number == 5
    assert np.array_equal(whole.channels.low, weight.min(axis=(1, 2, 3)))
    assert np.array_equal(whole.channels.high, weight.max(axis=(1, 2, 3)))
    assert np.ptp(whole.channels.reach) == 0
    assert int(whole.bins.counts.sum()) == weight.size
    own = _records(model, samples(), per_channel=True, equalize=False).tensors["w"]
    assert own.scales == 5
    # Symmetric int8 reaches to 128 scales below zero; ranges of least error may cut a little off.
    assert np.all(own.channels.reach >= 0.5 * np.abs(weight).max(axis=(1, 2, 3)))
    assert own.channels.reach[4] > 10 * own.channels.reach[0]


def test_many_channels_share_columns_and_none_is_left_out(rng):
    weight = rng.normal(size=(32, 200)).astype(np.float32)
    model = tiny_model("g (float[N, 32] x) => (float[A, B] y) { y = MatMul (x, w) }", {"w": weight})
    found = _records(model, samples(8, (32,)), equalize=False).tensors["w"].channels
    assert found.number == 200
    assert found.low.size == found.high.size == found.reach.size == 50
    assert np.array_equal(found.high, weight.max(axis=0).reshape(50, 4).max(axis=1))


def test_a_large_weight_is_sampled_evenly(rng):
    weight = np.repeat(rng.normal(size=(1, 512)), 512, axis=0).astype(np.float32)
    weight[:, :256] = 0
    model = tiny_model("g (float[N, 512] x) => (float[A, B] y) { y = MatMul (x, w) }", {"w": weight})
    bins = _records(model, samples(2, (512,)), equalize=False).tensors["w"].bins
    counted = int(bins.counts.sum())
    assert counted <= 1 << 16
    at = int((0.0 - bins.low) // bins.width)
    # Half of the values are zeros; the bar that holds them has a few others.
    assert bins.counts[at] / counted == pytest.approx(0.5, abs=0.05)


def test_float_types_and_stored_weights_have_nodes():
    found = _records(conv_relu_model(), preset="BF16")
    assert {tensor.scales for tensor in found.tensors.values()} == {0}
    assert found.tensors["w1"].kept is None
    weight = np.ones((64, 64), np.float32)
    model = tiny_model("g (float[N, 64] x) => (float[A, B] y) { y = MatMul (x, w) }", {"w": weight})
    stored = _records(model, preset="INT8_WO")
    assert [node.state for node in stored.nodes] == ["quantized"]
    assert not stored.tensors
