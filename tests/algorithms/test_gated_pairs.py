"""Factors of channels that pass beside the gate of a hard-swish, a SiLU or a Mish."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.algorithms.cross_layer_equalization import (
    CrossLayerEqualizationSettings,
    channels_between_layers,
    equalize,
)
from quarkfast.config import POLICY
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from support.tiny_models import run_as_written, tiny_model

CHANNELS = 8
GATED = {
    "HardSwish": "r = HardSwish (a)",
    "hard-swish": "t = Add (a, three) c = Clip (t, zero, six) m = Mul (a, c) r = Div (m, six)",
    "hard-swish, other order": "t = Add (three, a) c = Clip (t, zero, six) r = Mul (c, a)",
    "SiLU": "s = Sigmoid (a) r = Mul (a, s)",
    "Mish": "p = Softplus (a) t = Tanh (p) r = Mul (t, a)",
}
BEHIND = {
    "depthwise": "y = Conv <group = 8, pads = [1, 1, 1, 1]> (r, d)",
    "pooled": "o = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r) y = Conv (o, w)",
    "two layers": "e = Conv (r, w) f = Conv <group = 8, pads = [1, 1, 1, 1]> (r, d) y = Add (e, f)",
    "squeeze and excite": """g = GlobalAveragePool (r) h = Conv (g, q) i = Relu (h) j = Conv (i, v)
        k = HardSigmoid (j) l = Mul (r, k) y = Conv (l, w)""",
}
SHAPES = {
    "u": (CHANNELS, 3, 3, 3),
    "b": (CHANNELS,),
    "d": (CHANNELS, 1, 3, 3),
    "w": (CHANNELS, CHANNELS, 1, 1),
    "q": (4, CHANNELS, 1, 1),
    "v": (CHANNELS, 4, 1, 1),
}
NUMBERS = {"zero": np.float32(0), "three": np.float32(3), "six": np.float32(6)}


def _model(gated, behind):
    """Returns a model whose channels are made and read with weights of very different sizes."""
    rng = np.random.default_rng(4)
    arrays = {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in SHAPES.items()}
    octaves = np.float32(2.0) ** np.arange(-4, 4, dtype=np.float32)
    arrays["u"] *= octaves[:, None, None, None]
    arrays["d"] /= octaves[:, None, None, None]
    text = f"""g (float[N, 3, 8, 8] x) => (float[N, {CHANNELS}, a, b] y) {{
        a = Conv <pads = [1, 1, 1, 1]> (x, u, b) {gated} {behind}
    }}"""
    return tiny_model(text, {name: values for name, values in (arrays | NUMBERS).items() if name in text})


def _samples(seed=1, count=16):
    return np.random.default_rng(seed).normal(size=(count, 3, 8, 8)).astype(np.float32)


def _equalized(proto, **options):
    model = load_model(proto)
    changed = equalize(model, CrossLayerEqualizationSettings("octaves", through_gates=True, **options))
    return changed, onnx.load_from_string(serialize(model))


_WIDE = CrossLayerEqualizationSettings("octaves", through_gates=True, largest_factor=64)


def _factors_of(proto, reach):
    """Returns what each channel is multiplied by if it is known how far channels reach."""
    model = load_model(proto)
    before = _sizes_of(model)
    equalize(model, _WIDE, reach)
    return _sizes_of(model) / before


def _sizes_of(model):
    weights = model.graph.initializers["u"].const_value.numpy()
    return np.abs(weights).max(axis=(1, 2, 3))


def _kinds(proto):
    return [node.op_type for node in proto.graph.node]


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("gated", GATED)
def test_the_float_model_computes_the_same(gated, behind):
    proto, x = _model(GATED[gated], BEHIND[behind]), _samples()
    changed, found = _equalized(proto)
    assert changed
    assert _kinds(found).count("Mul") == _kinds(proto).count("Mul") + (2 if gated == "HardSwish" else 1)
    (expected,) = exact_session(proto).run(None, {"x": x})
    (result,) = exact_session(found).run(None, {"x": x})
    # A HardSwish multiplies by a sixth in another place, which rounds; factors are powers of two.
    scale = np.abs(expected).max()
    np.testing.assert_allclose(result, expected, rtol=0, atol=scale * 2.0**-18 if gated == "HardSwish" else 0)


def test_all_layers_behind_a_gate_take_up_the_factor():
    proto = _model(GATED["SiLU"], BEHIND["squeeze and excite"])
    _, found = _equalized(proto)
    before, after = (
        {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer} for model in (proto, found)
    )
    factors = after["u"][:, 0, 0, 0] / before["u"][:, 0, 0, 0]
    assert len(set(factors.tolist())) > 2
    np.testing.assert_array_equal(after["w"], before["w"] / factors[:, None, None])
    np.testing.assert_array_equal(after["a_factors"].ravel(), 1 / factors)
    squeezed = (after["q"] / before["q"])[..., 0, 0]  # its own channels are scaled too
    np.testing.assert_array_equal(squeezed / squeezed[:, :1], np.broadcast_to(factors[0] / factors, squeezed.shape))


@pytest.mark.parametrize(
    "behind",
    [
        "y = Add (r, r)",
        "e = Sigmoid (r) f = Mul (r, e) y = Conv (f, w)",
        "e = Conv (r, w) y = Add (e, r)",
        "e = Mul (r, r) y = Conv (e, w)",
        "e = Tanh (r) y = Conv (e, w)",
    ],
)
def test_where_the_factor_does_not_pass_nothing_changes(behind):
    changed, found = _equalized(_model(GATED["SiLU"], behind))
    assert not changed
    assert not any(name.name.endswith("_factors") for name in found.graph.initializer)


def test_what_others_read_has_no_factor():
    proto = _model(GATED["SiLU"], BEHIND["depthwise"])
    proto.graph.output.append(onnx.helper.make_tensor_value_info("r", 1, ["N", CHANNELS, 8, 8]))
    assert not _equalized(proto)[0]
    proto = _model("s = Sigmoid (a) m = Mul (a, s) r = Add (m, a)", BEHIND["depthwise"])
    assert not _equalized(proto)[0]


@pytest.mark.parametrize("gated", ["HardSwish", "hard-swish", "SiLU"])
def test_outputs_gain_where_weights_keep_one_scale(gated):
    proto, others = _model(GATED[gated], BEHIND["depthwise"]), _samples(2, 64)
    (expected,) = exact_session(proto).run(None, {"x": others})
    ratios = {}
    for through in (True, False):
        options = {"equalize_options": {"through_gates": through}}
        result = quarkfast.quantize(proto, preset="XINT8", calibration_data=_samples(), **options)
        ratios[through] = sqnr(expected, run_as_written(result.model_bytes, others))
        assert not quarkfast.check_model(result.proto, "ryzenai-xint8").errors
        told = [note for note in result.summary.notes if note.startswith("cross-layer equalization: 1 Mul in front of")]
        assert len(told) == through
    assert ratios[True] > ratios[False] + 3


@pytest.mark.parametrize("behind", BEHIND.values(), ids=BEHIND)
def test_no_channel_reaches_further_than_the_furthest_did(behind):
    proto, reach = _model(GATED["SiLU"], behind), np.float32([0, 4, 8, 3, 1, 7.9, 0.5, 2])
    assert channels_between_layers(load_model(proto), _WIDE)["r"] == 1
    free, limited = _factors_of(proto, {}), _factors_of(proto, {"r": reach})
    room = np.exp2(np.floor(np.log2(8 / reach[1:])))
    assert limited[0] == free[0]
    assert np.array_equal(limited[1:], np.minimum(free[1:], room))
    assert (limited < free).any()


def _small_weights_and_large_biases(lowest):
    """Returns a model whose weights, from 4 to the power `lowest` up, do not tell how far channels reach."""
    rng, proto = np.random.default_rng(5), _model(GATED["SiLU"], BEHIND["depthwise"])
    octaves = np.float32(4.0) ** np.arange(lowest, lowest + 8, dtype=np.float32)
    arrays = {
        "b": np.where(octaves < 1, 40, 0.1),
        "u": rng.normal(0, 0.5, SHAPES["u"]) * octaves[:, None, None, None],
        "d": rng.normal(0, 0.5, SHAPES["d"]),
    }
    for each in proto.graph.initializer:
        if each.name in arrays:
            each.CopyFrom(onnx.numpy_helper.from_array(arrays[each.name].astype(np.float32), each.name))
    return proto


def test_samples_limit_factors():
    reach = {}
    for through in (True, False):
        options = {"preset": "XINT8", "strict": True, "equalize_options": {"through_gates": through}}
        made = quarkfast.quantize(_small_weights_and_large_biases(-7), calibration_data=_samples(), **options)
        reach[through] = made.summary.records.tensors["r"].seen[1]
    assert reach[True] == pytest.approx(reach[False])


@pytest.mark.parametrize("unknown", ["large", "random"])
def test_without_samples_that_tell_weights_alone_decide(unknown):
    proto, options = _small_weights_and_large_biases(-7), {"strict": True, "equalize_options": {"through_gates": True}}
    limited = quarkfast.quantize(proto, preset="XINT8", calibration_data=_samples(), **options)
    options |= {"policy": {"judged_bytes": 0}} if unknown == "large" else {}
    data = _samples() if unknown == "large" else "random"
    free = quarkfast.quantize(proto, preset="XINT8", calibration_data=data, **options)
    assert (_kinds(limited.proto).count("Mul"), _kinds(free.proto).count("Mul")) == (1, 2)


def test_it_is_left_out_where_samples_held_apart_lose_by_it():
    """Channels that are read with equal weights, and made with small ones where they are large: activations lose."""
    proto, options = _model(GATED["SiLU"], BEHIND["depthwise"]), {"equalize_options": {"through_gates": True}}
    options["preset"] = "XINT8"
    kept = quarkfast.quantize(proto, calibration_data=_samples(), **options)
    assert _kinds(kept.proto).count("Mul") == 2
    proto = _small_weights_and_large_biases(-4)
    left = quarkfast.quantize(proto, calibration_data=_samples(), **options)
    assert _kinds(left.proto).count("Mul") == 1
    (note,) = [each for each in left.summary.notes if each.startswith("equalization through gates was left out")]
    assert "for it brought less than 1 dB: on " in note
    assert note.endswith("; strict=True keeps it")
    assert (
        _kinds(quarkfast.quantize(proto, calibration_data=_samples(), strict=True, **options).proto).count("Mul") == 2
    )


def _levers(proto, preset):
    made = quarkfast.quantize(proto, preset=preset, calibration_data=_samples(count=32), min_sqnr=80)
    return [each.lever for each in made.summary.levers]


def test_targets_of_quality_pull_it_where_activations_have_eight_bits():
    proto = _model(GATED["hard-swish"], BEHIND["depthwise"])
    for preset in ("XINT8", "A8W8", "U8S8"):
        names = ["as asked", "output_bias_correction=True", "equalization through gates"]
        assert _levers(proto, preset)[:3] == names
    assert "equalization through gates" not in _levers(proto, "A16W8")
    without = _model("r = Relu (a)", BEHIND["depthwise"])
    assert "equalization through gates" not in _levers(without, "XINT8")


@pytest.mark.parametrize("gate", ["SiLU", "HardSwish"])
@pytest.mark.parametrize("preset", ["XINT8", "A8W8", "U8S8"])
def test_poor_outputs_have_it_without_an_option(preset, gate, tmp_path):
    proto, feeds, asked = _model(GATED[gate], BEHIND["depthwise"]), _samples(count=24), {"through_gates": True}
    found = quarkfast.quantize(proto, tmp_path / "y.onnx", preset, feeds)
    assert found.summary.outputs[0][1] > POLICY.poor_sqnr + 10
    note = found.summary.notes[-1]
    assert note.startswith("equalization through gates was added, for output 'y' had ")
    assert "on 6 samples held apart outputs have " in note
    assert found.model_bytes == (tmp_path / "y.onnx").read_bytes()
    assert found.model_bytes == quarkfast.quantize(proto, None, preset, feeds, equalize_options=asked).model_bytes


@pytest.mark.parametrize("preset", ["BFP16", "MX9", "MXINT8"])
def test_poor_outputs_in_blocks_have_it_too(preset):
    given = {"policy": {"poor_sqnr": 25.0}, "preset": preset, "calibration_data": _samples(count=24)}
    proto, left = _model(GATED["SiLU"], BEHIND["depthwise"]), {"through_gates": False}
    found, without = quarkfast.quantize(proto, **given), quarkfast.quantize(proto, **given, equalize_options=left)
    assert found.summary.notes[-1].startswith("equalization through gates was added, for output 'y' had ")
    assert found.summary.outputs[0][1] > without.summary.outputs[0][1] + 10


@pytest.mark.parametrize(
    "options",
    [
        {"strict": True},
        {"equalize": False},
        {"equalize_options": {"through_gates": False}},
        {"rounding": "gptq"},
        {"preset": "A16W8"},
        {"preset": "MXFP8E4M3"},
        {"calibration_data": _samples(count=7)},
        {"calibration_data": iter([{"x": each[None]} for each in _samples()])},
        {"calibration_data": "random"},
    ],
    ids=lambda options: "-".join(map(str, options)),
)
def test_poor_outputs_stay_where_nobody_may_choose_or_tell(options):
    given = {"policy": {"poor_sqnr": 1000.0}, "preset": "A8W8", "calibration_data": _samples()} | options
    found = quarkfast.quantize(_model(GATED["SiLU"], BEHIND["depthwise"]), **given)
    assert _kinds(found.proto).count("Mul") == 1
    assert not any("was added" in note for note in found.summary.notes)


def test_poor_outputs_stay_where_they_gain_too_little():
    policy = {"poor_sqnr": 1000.0}
    proto = _small_weights_and_large_biases(-4)
    found = quarkfast.quantize(proto, preset="XINT8", calibration_data=_samples(), policy=policy)
    assert _kinds(found.proto).count("Mul") == 1
    assert not any("was added" in note for note in found.summary.notes)


def test_sound_outputs_have_no_further_node():
    proto, given = _model(GATED["SiLU"], BEHIND["depthwise"]), {"calibration_data": _samples()}
    for preset in ("A8W8", "XINT8"):
        found = quarkfast.quantize(proto, preset=preset, policy={"poor_sqnr": 0.0}, **given)
        assert _kinds(found.proto).count("Mul") == 1
