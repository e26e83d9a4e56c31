"""Biases that make up for what rounded activations shift, layer by layer, judged by the outputs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.config import PRESETS, scheme_from
from quarkfast.errors import ConfigError
from quarkfast.evaluate.exact_sums import exact_session
from support.shifted_means import CUT, LAYERS, model, ratio, x
from support.tiny_models import run_as_written, tiny_model

NOTE = "output bias correction of 7 layers: on "


def _quantized(data=None, preset="A8W8", **options):
    given = x(40) if data is None else data
    return quarkfast.quantize(model(), None, preset, given, **(CUT | {"strict": True} | options))


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "A16W8"])
def test_outputs_on_other_samples_gain_where_activations_shift_means(preset):
    plain, corrected = _quantized(preset=preset), _quantized(preset=preset, output_bias_correction=True)
    assert ratio(corrected) > ratio(plain) + 0.5
    assert any(each.startswith(NOTE) for each in corrected.summary.notes)


def _arrays(result):
    return {each.name: onnx.numpy_helper.to_array(each).tolist() for each in result.proto.graph.initializer}


def test_biases_change_and_nothing_else():
    arrays = [_arrays(result) for result in (_quantized(), _quantized(output_bias_correction=True))]
    changed = {name for name in arrays[0] if arrays[0][name] != arrays[1][name]}
    assert changed
    assert changed <= {f"b{layer}_quantized" for layer in (*range(LAYERS), "")}


def test_the_mean_of_outputs_is_that_of_the_float_model():
    data = x(40)
    (expected,) = exact_session(model()).run(None, {"x": data})
    plain, corrected = (
        np.abs((run_as_written(each.model_bytes, data) - expected).mean(axis=(0, 2, 3))).max()
        for each in (_quantized(), _quantized(output_bias_correction=True))
    )
    assert corrected < plain / 3


def test_it_is_undone_where_outputs_are_no_better(monkeypatch):
    monkeypatch.setattr(
        "quarkfast.algorithms.output_bias_correction.bias_of", lambda bias, *_: np.asarray(bias.values.numpy()) + 9
    )
    plain, corrected = _quantized(), _quantized(output_bias_correction=True)
    assert _arrays(corrected) == _arrays(plain)
    assert any(each.startswith("output bias correction was undone") for each in corrected.summary.notes)


def test_random_samples_decide_nothing():
    plain, corrected = _quantized("random"), _quantized("random", output_bias_correction=True)
    assert _arrays(corrected) == _arrays(plain)
    assert "output bias correction was left out: the samples are random" in corrected.summary.notes


def test_a_model_without_biases_says_so():
    model = tiny_model("g (float[N, 3] x) => (float[N, 3] y) { y = MatMul (x, w) }", {"w": np.eye(3, dtype=np.float32)})
    result = quarkfast.quantize(model, None, "A8W8", np.ones((8, 3), np.float32), output_bias_correction=True)
    note = "output bias correction was left out: no layer has a bias of its own with integer codes"
    assert note in result.summary.notes


def test_the_same_samples_give_the_same_bytes_however_they_come():
    whole = _quantized(output_bias_correction=True)
    once = _quantized(({"x": row[None]} for row in x(40)), output_bias_correction=True)
    assert whole.model_bytes == once.model_bytes


def test_other_roundings_do_it_themselves():
    plain, corrected = (_quantized(rounding="descent", output_bias_correction=on) for on in (False, True))
    assert _arrays(corrected) == _arrays(plain)


def test_it_is_an_option_that_plain_data_keeps():
    assert not PRESETS["A8W8"].output_bias_correction
    scheme = scheme_from("A8W8", {"output_bias_correction": True})
    assert quarkfast.Scheme.from_dict(scheme.to_dict()) == scheme


@pytest.mark.parametrize("preset", ["INT8_WO", "DYNAMIC", "BF16", "MX9"])
def test_presets_without_codes_of_biases_are_refused(preset):
    with pytest.raises(ConfigError, match=f"output_bias_correction: expected a preset .* got {preset}; leave it out"):
        scheme_from(preset, {"output_bias_correction": True})
    assert scheme_from(preset, {"output_bias_correction": False}) == PRESETS[preset]


def test_progress_counts_layers():
    seen = []
    _quantized(output_bias_correction=True, progress=lambda *each: seen.append(each))
    assert [each for each in seen if each[0] == "round"][1:] == [("round", done, 7) for done in range(1, 8)]
