from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import quarkfast
from quarkfast.algorithms import weight_rounding
from quarkfast.algorithms.rounding.error_feedback import round_with_feedback
from quarkfast.config import PRESETS
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.noise import OutputNoise
from quarkfast.graph.placement import Quantizer
from quarkfast.quantization import QuantizedBlocks
from quarkfast.reconstruction import LinearLayer
from quarkfast.search.job import Job
from quarkfast.search.search import Search
from support.tiny_models import run_as_written, tiny_model

TEXT = """g (float[N, 8, 6, 6] x) => (float[N, 5] y) {
    c = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    r = Relu (c)
    d = Conv <group = 8> (r, w2, b2)
    q = Relu (d)
    f = Flatten (q)
    y = Gemm (f, w3, b3)
}"""
SHAPES = {"w1": (8, 8, 3, 3), "b1": (8,), "w2": (8, 1, 3, 3), "b2": (8,), "w3": (128, 5), "b3": (5,)}


def _model():
    rng = np.random.default_rng(3)
    return tiny_model(TEXT, {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in SHAPES.items()})


def _correlated(count, seed):
    """Samples whose channels are mixtures of three: what rounding to nearest knows nothing of."""
    rng = np.random.default_rng(seed)
    mixture = np.random.default_rng(1).normal(size=(8, 3))
    return np.einsum("cm,nmhw->nchw", mixture, rng.normal(size=(count, 3, 6, 6))).astype(np.float32)


def _quantized(rounding, data=None, **options):
    given = {"preset": "A8W8", "weight_type": "int4"} | options
    samples = _correlated(40, 2) if data is None else data
    return quarkfast.quantize(_model(), calibration_data=samples, rounding=rounding, **given)


def _ratio(result):
    x = _correlated(32, 5)
    (expected,) = exact_session(_model()).run(None, {"x": x})
    return sqnr(expected, run_as_written(result.model_bytes, x))


def _codes(result):
    arrays = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    return {name: arrays[f"{name}_quantized"].astype(np.int64) for name in ("w1", "w2", "w3")}


@pytest.mark.parametrize("options", [{}, {"per_channel": True}, {"activation_type": "int16"}, {"preset": "A16W8"}])
def test_outputs_on_other_samples_gain(options):
    nearest, rounded = (_quantized(rounding, **options) for rounding in ("nearest", "descent"))
    assert _ratio(rounded) > _ratio(nearest) + 1
    assert any("weight rounding: codes of 3 layers" in note for note in rounded.summary.notes)


def _judge_by(monkeypatch, before, after):
    ratios = iter([np.array(before), np.array(after)])
    monkeypatch.setattr(Search, "worst", np.inf)  # what poor outputs get is judged as well
    monkeypatch.setattr(Job, "may_correct_biases", False)
    monkeypatch.setattr(OutputNoise, "ratios", lambda _: next(ratios))


@pytest.mark.parametrize(
    ("gains", "kept"),
    [
        ([0.1], True),
        ([-0.1], False),
        ([0.0, 0.0], False),
        ([3.0, -3.1], True),  # a mean of -0.05 with a standard error of 3.05
        ([-1.0, -1.2, -0.8], False),
        ([np.nan, 0.1], True),
        ([np.nan], False),
    ],
)
def test_codes_stay_unless_the_samples_say_that_they_are_worse(monkeypatch, gains, kept):
    _judge_by(monkeypatch, [20.0 + 0 * each for each in gains], [20.0 + each for each in gains])
    notes = _quantized("descent").summary.notes
    assert any(note.startswith("weight rounding: codes of 3 layers") for note in notes) == kept
    assert any(note.startswith("weight rounding was undone") for note in notes) != kept


def test_operators_that_are_not_named_keep_the_nearest_codes(monkeypatch):
    _judge_by(monkeypatch, [20.0, 20.0], [20.1, 20.2])
    scheme = replace(PRESETS["A8W8"], rounding="descent", rounding_options=(("op_types", ("Gemm",)),))
    nearest, rounded = (
        _codes(quarkfast.quantize(_model(), preset=each, weight_type="int4", calibration_data=_correlated(40, 2)))
        for each in (PRESETS["A8W8"], scheme)
    )
    assert [name for name in nearest if (nearest[name] != rounded[name]).any()] == ["w3"]


def test_outputs_gain_by_gptq():
    nearest, rounded = (_quantized(each, per_channel=True) for each in ("nearest", "gptq"))
    assert _ratio(rounded) > _ratio(nearest)
    assert any("weight rounding: codes of 3 layers" in note for note in rounded.summary.notes)
    assert rounded.model_bytes == _quantized("gptq", per_channel=True).model_bytes


@pytest.mark.parametrize("rounding", ["adaround", "adaquant"])
def test_names_of_gradient_solvers_run_descent_and_say_so(rounding):
    named, descent = _quantized(rounding), _quantized("descent")
    found, expected = _codes(named), _codes(descent)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    assert f"rounding: {rounding!r} runs 'descent', which solves the same problem" in named.summary.notes
    assert not any("runs 'descent'" in note for note in descent.summary.notes)


def test_codes_stay_within_a_few_steps_and_within_their_type():
    nearest, rounded = (_codes(_quantized(rounding)) for rounding in ("nearest", "descent"))
    for name, codes in rounded.items():
        assert (codes != nearest[name]).any()
        assert codes.min() >= -8
        assert codes.max() <= 7


def test_damping_draws_codes_to_the_nearest_ones():
    nearest, usual = _codes(_quantized("nearest")), _codes(_quantized("descent"))
    some, all_of_it = (_codes(_quantized("descent", rounding_damping=each)) for each in (1.0, 1e9))
    moved = [sum(int((found[name] != nearest[name]).sum()) for name in nearest) for found in (usual, some, all_of_it)]
    assert moved[0] > moved[1] > moved[2] == 0


def test_scales_and_activations_are_those_of_nearest_codes():
    arrays = []
    for rounding in ("nearest", "descent"):
        graph = _quantized(rounding).proto.graph
        arrays.append({t.name: t.SerializeToString() for t in graph.initializer if "scale" in t.name})
    assert arrays[0] == arrays[1]


@pytest.mark.parametrize("options", [{"batch_size": 1}, {"batch_size": 7}])
def test_the_batch_size_changes_no_code(options):
    first, other = _codes(_quantized("descent")), _codes(_quantized("descent", **options))
    assert all(np.array_equal(first[name], other[name]) for name in first)


def test_the_same_arguments_give_the_same_bytes():
    assert _quantized("descent").model_bytes == _quantized("descent").model_bytes


def test_codes_that_help_nobody_are_undone(monkeypatch):
    _judge_by(monkeypatch, [20.0, 20.0], [19.9, 19.8])
    result = _quantized("descent")
    expected = "weight rounding was undone, for it made the model no better: on 2 samples held apart outputs have 19.9 "
    assert any(note.startswith(expected) for note in result.summary.notes)
    codes, nearest = _codes(result), _codes(_quantized("nearest"))
    assert all(np.array_equal(codes[name], nearest[name]) for name in codes)


def test_what_is_undone_leaves_the_corrected_biases(monkeypatch):
    _judge_by(monkeypatch, [20.0, 20.0], [19.9, 19.8])
    undone, nearest, plain = (
        _quantized("descent"),
        _quantized("nearest"),
        _quantized("nearest", bias_correction=False),
    )
    arrays = [
        {each.name: each.raw_data for each in result.proto.graph.initializer} for result in (undone, nearest, plain)
    ]
    assert arrays[0] == arrays[1] != arrays[2]


def test_biases_stay_where_they_are_told_to():
    scheme = replace(PRESETS["A8W8"], rounding="descent", rounding_options=(("update_bias", False),))
    result = quarkfast.quantize(_model(), preset=scheme, weight_type="int4", calibration_data=_correlated(40, 2))
    plain = _quantized("nearest", bias_correction=False)
    arrays = [{each.name: each.raw_data for each in r.proto.graph.initializer} for r in (result, plain)]
    assert {name for name in arrays[0] if arrays[0][name] != arrays[1][name]} == {f"w{i}_quantized" for i in (1, 2, 3)}


def test_one_sample_is_enough():
    result = _quantized("descent", _correlated(1, 2))
    assert any("weight rounding" in note for note in result.summary.notes)


def test_random_samples_are_not_fitted_to():
    result = _quantized("descent", "random")
    assert any("weight rounding was left out: the samples are random" in note for note in result.summary.notes)


def test_a_calibration_has_no_samples_to_run():
    calibration = quarkfast.calibrate(_model(), _correlated(8, 2), preset="A8W8")
    message = "rounding: expected calibration_data to run layers on, got a calibration; pass the samples instead"
    with pytest.raises(quarkfast.ConfigError, match=message):
        quarkfast.quantize(_model(), None, "A8W8", calibration=calibration, rounding="descent")


FLOATS = ["BF16", "FP16", "BFP16", "MX9", "MX6", "MXINT8", "MXFP8E4M3", "MXFP6E2M3", "MXFP4E2M1"]


@pytest.mark.parametrize("preset", FLOATS)
def test_floats_and_blocks_are_rounded_with_error_feedback(preset):
    nearest, rounded = (
        quarkfast.quantize(_model(), preset=preset, calibration_data=_correlated(40, 2), rounding=each)
        for each in ("nearest", "gptq")
    )
    (note,) = [note for note in rounded.summary.notes if "weight rounding" in note]
    undone = "undone" in note
    assert (rounded.model_bytes == nearest.model_bytes or _ratio(rounded) == _ratio(nearest)) == undone
    assert _ratio(rounded) > _ratio(nearest) - 0.5  # samples held apart are others than those that are judged here


def test_error_feedback_lessens_the_error_of_a_layer():
    rng = np.random.default_rng(3)
    weights, inputs = rng.normal(size=(2, 5, 12)), rng.normal(size=(2, 400, 12)) @ rng.normal(size=(2, 12, 12))
    gram = inputs.transpose(0, 2, 1) @ inputs
    blocks = [np.array([0, 4, 8]), np.array([1, 5, 9]), np.array([2, 6, 10]), np.array([3, 7, 11])]
    nearest, seen = np.rint(weights), []

    def whole(values):
        seen.append(values.shape)
        return np.rint(values)

    found = round_with_feedback(nearest, gram, weights @ gram, blocks, whole)
    assert seen == [(5, 3)] * 8
    np.testing.assert_array_equal(found, np.rint(found))
    errors = [np.einsum("gmk,gkl,gml->gm", each - weights, gram, each - weights) for each in (nearest, found)]
    assert (errors[1] <= errors[0]).all()
    assert errors[1].sum() < 0.6 * errors[0].sum()


def test_a_singular_matrix_leaves_the_nearest_values():
    nearest = np.ones((1, 2, 2))
    columns = [np.array([0]), np.array([1])]
    found = round_with_feedback(nearest, np.zeros((1, 2, 2)), np.zeros((1, 2, 2)), columns, np.rint)
    np.testing.assert_array_equal(found, nearest)


@pytest.mark.parametrize(
    ("shape", "groups", "axis", "blocks"),
    [((4, 20, 3, 1), 1, 1, 9), ((20, 6), 1, 0, None), ((20, 6), 1, 1, 1), ((4, 8), 1, 1, 1)],
    ids=str,
)
def test_blocks_lie_along_the_inputs_of_a_row_or_are_left(shape, groups, axis, blocks):
    values = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    tensor = QuantizedBlocks(Quantizer("bfp16", np.float32(1), np.int64(0), axis=axis), ir.tensor(values), "half_even")
    layer = LinearLayer("n", "Conv" if len(shape) == 4 else "Gemm", "x", "w", None, shape, groups)
    found = weight_rounding._blocks(tensor, layer)
    if blocks is None:
        assert found is None
        return
    rows, held = layer.to_rows(values)[0], layer.to_rows(tensor.decoded())[0]
    assert len(found) == blocks
    assert sorted(np.concatenate(found).tolist()) == list(range(rows.shape[1]))
    for block in found:
        np.testing.assert_array_equal(tensor.of_rows(np.ascontiguousarray(rows[:, block])), held[:, block])


@pytest.mark.parametrize("preset", ["BF16_WO", "FP16_WO"])
def test_presets_without_codes_to_choose_refuse(preset):
    with pytest.raises(quarkfast.ConfigError, match=f"rounding: expected nearest with {preset}, got 'descent'"):
        quarkfast.quantize(_model(), None, preset, _correlated(4, 2), rounding="descent")


def test_an_unknown_way_of_rounding_is_refused():
    with pytest.raises(
        quarkfast.ConfigError, match="rounding: expected nearest, descent, adaround, adaquant or gptq, got 'up'"
    ):
        quarkfast.quantize(_model(), None, "A8W8", _correlated(4, 2), rounding="up")


def test_progress_counts_layers():
    seen = []
    quarkfast.quantize(_model(), None, "A8W8", _correlated(10, 2), rounding="descent",
                       progress=lambda *each: seen.append(each))  # fmt: skip
    assert [each for each in seen if each[0] == "round"][1:] == [("round", done, 3) for done in (1, 2, 3)]


@pytest.mark.parametrize(
    ("preset", "options", "part"),
    [
        *((preset, (), "asked") for preset in ("A8W8", "A16W8", "XINT8", "MX6", "BF16", "INT8_WO")),
        *((preset, (("part_of_error", 0.25),), 0.25) for preset in ("A8W8", "XINT8", "MX6")),
        ("A8W8", (("from_float_input", False),), None),
    ],
)
def test_samples_say_how_much_of_an_input_s_error_layers_make_up_for(monkeypatch, preset, options, part):
    seen, shares = [], []
    covariances = weight_rounding.covariances
    monkeypatch.setattr(weight_rounding, "error_share", lambda *_: seen.append("asked") or 0.5)
    monkeypatch.setattr(
        weight_rounding,
        "covariances",
        lambda matrices, share, c: shares.append(share) or covariances(matrices, share, c),
    )
    scheme = replace(PRESETS[preset], rounding="descent", rounding_options=options)
    quarkfast.quantize(_model(), preset=scheme, calibration_data=_correlated(40, 2))
    assert seen == (["asked"] * 3 if part == "asked" else [])
    assert shares == [{"asked": 0.5, None: 1.0}.get(part, part)] * 3


def test_no_part_of_the_error_is_as_the_quantized_input_alone():
    def codes(*options):
        scheme = replace(PRESETS["XINT8"], rounding="descent", rounding_options=(("update_bias", False), *options))
        return _codes(quarkfast.quantize(_model(), preset=scheme, calibration_data=_correlated(40, 2)))

    none, alone, whole = (
        codes(("part_of_error", 0.0)),
        codes(("from_float_input", False)),
        codes(("part_of_error", 1.0)),
    )
    assert all(np.array_equal(none[name], alone[name]) for name in alone)
    assert any(not np.array_equal(whole[name], alone[name]) for name in alone)


@pytest.mark.parametrize("preset", ["A8W8", "XINT8"])
def test_biases_of_any_codes_make_up_for_means(preset):
    """Inputs far from zero, whose products with rounded weights are off in the mean by more than a step of a bias."""

    def biases(**options):
        scheme = replace(
            PRESETS[preset], rounding="descent", bias_correction=False, rounding_options=tuple(options.items())
        )
        result = quarkfast.quantize(_model(), preset=scheme, calibration_data=_correlated(40, 2) + 9)
        arrays = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
        return [arrays[f"{name}_quantized"].tolist() for name in ("b1", "b2", "b3")]

    assert biases() != biases(update_bias=False)


def test_weights_make_up_for_what_codes_of_a_bias_lack():
    """A bias of 40 gives all of them steps of a half."""
    rng = np.random.default_rng(5)
    weight = rng.normal(0, 0.3, (64, 8)).astype(np.float32)
    bias = np.r_[40.0, rng.normal(0, 1, 7)].astype(np.float32)
    proto = tiny_model("g (float[N, 64] x) => (float[N, 8] y) { y = Gemm (x, w, b) }", {"w": weight, "b": bias})
    x = np.abs(rng.normal(size=(64, 64))).astype(np.float32)
    result = quarkfast.quantize(proto, preset="XINT8", calibration_data=x, rounding="descent")
    arrays = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    found, has = (arrays[f"{name}_quantized"] * arrays[f"{name}_scale"] for name in ("w", "b"))
    assert arrays["b_scale"] == 0.5
    assert np.abs(has - bias).max() > 0.2
    assert np.abs(x.mean(axis=0) @ (found - weight) + has - bias).max() < 0.02


@pytest.mark.parametrize("options", [{}, {"per_channel": True}])
def test_a_head_on_two_levels_is_rounded_for_both(options):
    text = """g (float[N, 8, 6, 6] x) => (float[N, 4, 6, 6] y, float[N, 4, 3, 3] z) {
        y = Conv <pads = [1, 1, 1, 1]> (x, w, b)
        half = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
        z = Conv <pads = [1, 1, 1, 1]> (half, w, b)
    }"""
    rng = np.random.default_rng(3)
    proto = tiny_model(text, {"w": rng.normal(0, 0.3, (4, 8, 3, 3)).astype(np.float32), "b": np.ones(4, np.float32)})
    x = _correlated(32, 5)
    expected = exact_session(proto).run(None, {"x": x})
    ratios = []
    for rounding in ("nearest", "descent"):
        result = quarkfast.quantize(
            proto, preset="A8W8", weight_type="int4", calibration_data=_correlated(40, 2), rounding=rounding, **options
        )
        outputs = exact_session(result.model_bytes).run(None, {"x": x})
        ratios.append([sqnr(*pair) for pair in zip(expected, outputs, strict=True)])
    assert any("weight rounding: codes of 1 layer chosen" in note for note in result.summary.notes)
    assert min(np.subtract(ratios[1], ratios[0])) > 1
