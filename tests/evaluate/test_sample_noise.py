"""Noise of forms of a model on each sample."""

from __future__ import annotations

import numpy as np
import onnx

from quarkfast.evaluate.sample_noise import SampleNoise, TriedForm

FORM = '<ir_version: 8, opset_import: ["": 17]>'


def _model(text):
    return onnx.parser.parse_model(f"{FORM} g (float[2] x) => (float[2] y) {{ {text} }}")


def _noises(reference, features, feeds, *forms):
    judge = SampleNoise(reference, None, features, forms)
    for feed in feeds:
        judge.see(feed)
    found = judge.noises()
    judge.close()
    return [each.tolist() for each in found]


def _feeds(*rows):
    return [{"x": np.float32(row)} for row in rows]


def test_the_mean_over_samples_is_the_noise_beside_the_power_of_all():
    twice, same = TriedForm(_model("z = Add (x, x) y = Identity (z)")), TriedForm(_model("y = Identity (x)"))
    found = _noises(_model("y = Identity (x)"), "", _feeds([1, 0], [3, 0]), twice, same)
    assert found == [[1 / 5, 9 / 5], [0.0, 0.0]]  # of twice the signal


def test_forms_that_share_a_model_differ_in_constants():
    model = onnx.parser.parse_model(f"{FORM} g (float[2] x, float s) => (float[2] y) {{ y = Mul (x, s) }}")
    forms = [TriedForm(model, None, {"s": np.array(scale, np.float32)}) for scale in (1, 3)]
    found = _noises(_model("y = Identity (x)"), "", _feeds([1, 1], [2, 0]), *forms)
    assert found == [[0.0, 0.0], [8 / 3, 16 / 3]]


def test_features_count_beside_outputs():
    wanted, other = (_model(f"f = {op} (x) y = Neg (f)") for op in ("Identity", "Abs"))
    assert _noises(wanted, "f", _feeds([1, 1], [-1, 1]), TriedForm(other)) == [[0.0, 2.0]]


def test_a_form_that_is_not_run_on_a_sample_has_no_noise_there():
    judge = SampleNoise(_model("y = Identity (x)"), None, "", [TriedForm(_model("y = Neg (x)"))] * 2)
    for feed, places in zip(_feeds([1, 0], [1, 0], [1, 0]), (None, [1], []), strict=True):
        judge.see(feed, places)
    np.testing.assert_array_equal(judge.noises(), [[4.0, np.nan, np.nan], [4.0, 4.0, np.nan]])


def test_numbers_of_outputs_are_counted_over_samples():
    judge = SampleNoise(_model("y = Neg (x)"), None, "", [])
    judge.see(_feeds([1, 1])[0])
    judge.see(_feeds([2, 2])[0])
    assert judge.numbers == 4
    assert judge.noises() == []


def test_outputs_of_zeros_cannot_be_judged():
    form = TriedForm(_model("y = Neg (x)"))
    assert _noises(_model("y = Sub (x, x)"), "", _feeds([1, 1]), form) == [[]]
