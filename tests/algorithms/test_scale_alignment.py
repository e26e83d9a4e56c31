from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.algorithms import judged_kinds, scale_alignment
from quarkfast.algorithms.alignment_search import Powers
from quarkfast.algorithms.scale_noise import POSITIONS, anchor_of, factor_of, noise_of_activations, noise_of_weight
from quarkfast.config import PRESETS
from quarkfast.errors import ConfigError
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.noise import Gains
from quarkfast.kernels import histogram
from support.tiny_models import run_as_written, tiny_model

TEXT = """g (float[N, 8, 6, 6] x) => (float[N, 5] y) {
    c = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    r = Relu (c)
    d = Conv (r, w2, b2)
    s = Add (d, r)
    q = Relu (s)
    p = GlobalAveragePool (q)
    f = Flatten (p)
    y = Gemm (f, w3, b3)
}"""
SHAPES = {"w1": (16, 8, 3, 3), "b1": (16,), "w2": (16, 16, 1, 1), "b2": (16,), "w3": (16, 5), "b3": (5,)}

# A product of two factors and a sum of 144 terms, each rounded to float32.
FLOAT_SQNR = 120.0


def _model(seed=3):
    rng = np.random.default_rng(seed)
    return tiny_model(TEXT, {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in SHAPES.items()})


def _samples(count, seed):
    return np.random.default_rng(seed).normal(size=(count, 8, 6, 6)).astype(np.float32)


def _quantized(seed=3, **options):
    return quarkfast.quantize(_model(seed), preset="XINT8", calibration_data=_samples(32, 2), **options)


def _notes(result):
    return [note for note in result.summary.notes if "alignment" in note]


def _ratio(result, seed=3):
    x = _samples(64, 5)
    (expected,) = exact_session(_model(seed)).run(None, {"x": x})
    return sqnr(expected, run_as_written(result.model_bytes, x))


def test_outputs_gain_beside_rounding_by_descent():
    gains = [
        _ratio(_quantized(seed, rounding="descent"), seed)
        - _ratio(_quantized(seed, rounding="descent", align_scales=False), seed)
        for seed in range(6)
    ]
    assert np.mean(gains) > 0.3


def test_the_summary_says_how_much_is_expected_of_it():
    (note,) = _notes(_quantized(align_scales=True))
    assert note.startswith("power-of-two scale alignment: ")
    assert note.endswith(" dB lower")


def test_weights_as_they_were_multiplied_compute_what_they_did():
    plain = {"constraints": {"dpu_average_pool": False}}  # the factor of the accelerator changes what it computes
    result = _quantized(align_scales=True, keep_float_weights=True, bias_correction=False, **plain)
    proto = onnx.ModelProto()
    proto.CopyFrom(result.proto)
    assert _notes(result)
    through = {}
    for node in proto.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            through[node.output[0]] = through.get(node.input[0], node.input[0])
    kept = [node for node in proto.graph.node if node.op_type not in ("QuantizeLinear", "DequantizeLinear")]
    for node in kept:
        for index, name in enumerate(node.input):
            node.input[index] = through.get(name, name)
    kept.append(onnx.helper.make_node("Identity", [through["y"]], ["y"]))
    del proto.graph.node[:]
    proto.graph.node.extend(kept)
    x = _samples(16, 7)
    (expected,) = exact_session(_model()).run(None, {"x": x})
    (found,) = exact_session(proto).run(None, {"x": x})
    assert sqnr(expected, found) > FLOAT_SQNR


LIMITED = """g (float[N, 8, 6, 6] x) => (float[N, 5] y) {
    c = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    r = Clip (c, low, high)
    d = Conv (r, w2, b2)
    s = Add (d, r)
    q = Clip (s, low, high)
    p = GlobalAveragePool (q)
    f = Flatten (p)
    y = Gemm (f, w3, b3)
}"""


def _limited(high, seed=3):
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in SHAPES.items()}
    return tiny_model(LIMITED, arrays | {"low": np.float32(0), "high": np.float32(high)})


def test_limits_that_have_the_last_code_become_relu():
    """The limit of 6 is three quarters of what codes of the scale of least error reach."""
    x, gains = _samples(64, 5), []
    for seed in range(6):
        model = _limited(6.0, seed)
        plain, aligned = (
            quarkfast.quantize(
                model, preset="XINT8", calibration_data=_samples(32, 2), rounding="descent", align_scales=each
            )
            for each in (False, True)
        )
        assert [node.op_type for node in plain.proto.graph.node].count("Clip") == 2
        assert "Clip" not in [node.op_type for node in aligned.proto.graph.node]
        assert any(note.startswith("2 Clip became Relu: ") for note in aligned.summary.notes)
        assert (plain.summary.quantized.get("Clip"), aligned.summary.quantized.get("Clip")) == (2, None)
        assert aligned.summary.quantized["Relu"] == 2
        (expected,) = exact_session(model).run(None, {"x": x})
        ratios = [sqnr(expected, run_as_written(each.model_bytes, x)) for each in (plain, aligned)]
        gains.append(ratios[1] - ratios[0])
    assert np.mean(gains) > 0.5


def test_limits_of_tensors_without_a_pair_do_not_move():
    left = ["clip_1", "conv_2", "add_3"]
    result = quarkfast.quantize(
        _limited(3.0), preset="XINT8", calibration_data=_samples(32, 2), rounding="descent", exclude=left
    )
    assert [node.op_type for node in result.proto.graph.node].count("Clip") == 2


def test_samples_choose_among_factors_and_may_leave_them_out(monkeypatch):
    (note,) = _notes(_quantized(1, rounding="descent"))
    assert "dB lower; with rounded activations alone outputs gain " in note
    assert note.endswith(" dB in the mean of 10 samples held apart")
    unaligned = _quantized(rounding="descent", align_scales=False, search_ranges=False)
    for chosen, said in (
        (judged_kinds.Chosen(None), " was left out: outputs have no less noise with it"),
        (
            judged_kinds.Chosen((Powers(2.0, 2.0), True), Gains(np.zeros(10), np.full(10, -1.0)), 10),
            " was left out; with rounded activations alone ",
        ),
    ):
        monkeypatch.setattr(scale_alignment, "judge_kinds", lambda *given, chosen=chosen: chosen)
        result = _quantized(rounding="descent")
        assert said in _notes(result)[0]
        assert [node.op_type for node in result.proto.graph.node] == [
            node.op_type for node in unaligned.proto.graph.node
        ]
        assert _scales(result) == _scales(unaligned)


def test_ranges_alone_may_be_better(monkeypatch):
    chosen = judged_kinds.Chosen((Powers(2.5, 2.5), False), Gains(np.zeros(10), np.ones(10)), 10)
    monkeypatch.setattr(scale_alignment, "judge_kinds", lambda *given: chosen)
    result = _quantized(rounding="descent")
    (note,) = _notes(result)
    assert note.startswith(
        "power-of-two scale alignment was left out for ranges of least error to the power 2.5 alone; "
    )
    assert not any(each.key == "quarkfast.factors" for each in result.proto.metadata_props)


def test_few_samples_do_not_judge():
    result = quarkfast.quantize(_model(), preset="XINT8", calibration_data=_samples(11, 2), rounding="descent")
    (note,) = _notes(result)
    assert note.endswith(" dB lower")


def _scales(result):
    return {
        each.name: onnx.numpy_helper.to_array(each).tolist()
        for each in result.proto.graph.initializer
        if each.name.endswith("_scale")
    }


@pytest.mark.parametrize("factors", [None, "[1", '["r"]', '{"c": "2", "r": [1], "s": NaN}'])
def test_tensors_are_compared_with_what_they_were_times_their_factor(tmp_path, factors):
    """Metadata that are something else count as none."""
    reference, path = tmp_path / "float.onnx", tmp_path / "aligned.onnx"
    onnx.save(_model(), reference)
    model = _quantized(align_scales=True).proto
    if factors is not None:
        next(each for each in model.metadata_props if each.key == "quarkfast.factors").value = factors
    onnx.save(model, path)
    found = {each.tensor: each.sqnr for each in quarkfast.compare_models(reference, path, _samples(16, 7)).tensors}
    assert (min(found[name] for name in ("r", "q")) > 25) is (factors is None)


def test_every_run_gives_the_same_bytes():
    first, second = (_quantized(align_scales=True).model_bytes for _ in range(2))
    assert first == second


def test_a_saved_calibration_serves_both():
    found = quarkfast.calibrate(_model(), _samples(32, 2), preset="XINT8")
    for aligned in (True, False):
        options = {"align_scales": aligned, "bias_correction": False}
        result = quarkfast.quantize(_model(), preset="XINT8", calibration=found, **options)
        assert result.model_bytes == _quantized(**options).model_bytes


def test_it_is_off_by_default_and_on_with_rounding_by_descent():
    assert not PRESETS["XINT8"].aligned
    assert replace(PRESETS["XINT8"], rounding="descent").aligned
    assert not replace(PRESETS["A8W8"], rounding="descent").aligned
    assert not replace(PRESETS["XINT8"], rounding="descent", align_scales=False).aligned


def test_random_samples_tell_nothing():
    result = quarkfast.quantize(_model(), preset="XINT8", calibration_data="random", align_scales=True)
    assert not _notes(result)


def test_a_layer_between_input_and_output_stays_as_it_is():
    text = "g (float[N, 8] x) => (float[N, 8] y) { y = Gemm (x, w) }"
    proto = tiny_model(text, {"w": np.random.default_rng(1).normal(size=(8, 8)).astype(np.float32)})
    x = _samples(4, 2).reshape(-1, 8)
    models = [
        quarkfast.quantize(proto, preset="XINT8", calibration_data=x, align_scales=each) for each in (True, False)
    ]
    first, second = ([each.SerializeToString() for each in model.proto.graph.initializer] for model in models)
    assert first == second
    assert not _notes(models[0])


def test_presets_with_other_scales_refuse_it():
    with pytest.raises(ConfigError, match=r"align_scales: expected a preset with power-of-two scales, such as XINT8"):
        quarkfast.quantize(_model(), preset="A8W8", calibration_data=_samples(8, 2), align_scales=True)


def test_positions_cover_one_octave():
    factors = np.array([factor_of(each) for each in range(POSITIONS)])
    assert factors[0] == 1
    assert factors.max() < np.sqrt(2)
    assert factors.min() == factor_of(POSITIONS // 2) == 0.5**0.5


@pytest.mark.parametrize("power", [2.0, 2.5, 3.0])
def test_noise_of_a_power_is_the_square_of_the_root_of_its_mean(power):
    values = np.random.default_rng(2).standard_t(4, 100_000).astype(np.float32)
    found = noise_of_activations([histogram(values)], PRESETS["XINT8"].activation, power)
    scale = found.scales[0]
    error = np.abs(values - scale * np.clip(np.rint(values / scale), -128, 127)).astype(np.float64)
    # Two places stand for a bin, of which a step has at least two.
    expected = (error**power).mean() ** (2 / power) / np.square(values, dtype=np.float64).mean()
    assert found.ratios[0] == pytest.approx(expected, rel=0.05)


def test_codes_stay_within_a_limit_that_moves():
    values = np.clip(np.random.default_rng(2).normal(3, 3, 100_000), 0, 6).astype(np.float32)
    spec = PRESETS["XINT8"].activation
    anchor = anchor_of(6.0, spec)
    found = noise_of_activations([histogram(values)], spec, limit=6.0, anchor=anchor)
    codes = [6 * factor_of(each) * (anchor if each else 1) / found.scales[each] for each in range(POSITIONS)]
    assert codes[0] == 96
    assert min(codes[1:]) == pytest.approx(127)
    # One of the many values that are 6 in four would be off by an eighth of an octave and more otherwise.
    assert found.ratios.min() == found.ratios[codes.index(min(codes[1:]))]


def test_noise_is_that_of_the_multiplied_tensor():
    values = np.random.default_rng(2).normal(size=4096).astype(np.float32)
    found = noise_of_weight(values, PRESETS["XINT8"].weight)
    expected = noise_of_activations([histogram(values)], PRESETS["XINT8"].activation)
    for position in range(POSITIONS):
        scaled = values.astype(np.float64) * factor_of(position)
        codes = np.clip(np.rint(scaled / found.scales[position]), -127, 127)
        noise = np.square(scaled - codes * found.scales[position]).sum() / np.square(scaled).sum()
        assert noise == pytest.approx(found.ratios[position], rel=1e-3)  # float32 rounds at the edges of codes
        assert expected.ratios[position] == pytest.approx(noise, rel=0.1)  # 4096 values are no density
    assert noise_of_weight(np.zeros(4, np.float32), PRESETS["XINT8"].weight) is None
    assert noise_of_activations([histogram(np.zeros(4, np.float32))], PRESETS["XINT8"].activation) is None


def test_a_weight_with_a_range_of_its_own_stays_as_it_is():
    tensors = {"w2": {"range": (-0.5, 0.5)}}
    first, second = (
        {
            each.name: onnx.numpy_helper.to_array(each)
            for each in _quantized(align_scales=aligned, tensors=tensors).proto.graph.initializer
        }
        for aligned in (True, False)
    )
    np.testing.assert_array_equal(first["w2_quantized"], second["w2_quantized"])
    np.testing.assert_array_equal(first["w2_scale"], second["w2_scale"])
    assert not np.array_equal(first["w1_quantized"], second["w1_quantized"])
