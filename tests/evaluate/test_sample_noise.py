"""Noise of forms of a model on each sample."""

from __future__ import annotations

import numpy as np
import onnx

from quarkfast.evaluate.sample_noise import SampleNoise, TriedForm

FORM = '<ir_version: 8, opset_import: ["": 17]>'


def _model(text):
    return onnx.parser.parse_model(f"{FORM} g (float[2] x) => (float[2] y) {{ {text} }}")


def _feeds(*rows):
    return [{"x": np.float32(row)} for row in rows]


def test_the_mean_over_samples_is_the_noise_beside_the_power_of_all():
    feeds = _feeds([1, 0], [3, 0])
    judge = SampleNoise(_model("y = Identity (x)"), None, "", feeds, 1, 100)
    twice, same = TriedForm(_model("z = Add (x, x) y = Identity (z)")), TriedForm(_model("y = Identity (x)"))
    assert [each.tolist() for each in judge.of(twice, same)] == [[1 / 5, 9 / 5], [0.0, 0.0]]  # of twice the signal


def test_forms_that_share_a_model_differ_in_constants():
    model = onnx.parser.parse_model(f"{FORM} g (float[2] x, float s) => (float[2] y) {{ y = Mul (x, s) }}")
    judge = SampleNoise(_model("y = Identity (x)"), None, "", _feeds([1, 1], [2, 0]), 1, 100)
    forms = [TriedForm(model, None, {"s": np.array(scale, np.float32)}) for scale in (1, 3)]
    assert [each.tolist() for each in judge.of(*forms)] == [[0.0, 0.0], [8 / 3, 16 / 3]]


def test_features_count_beside_outputs():
    wanted, other = (_model(f"f = {op} (x) y = Neg (f)") for op in ("Identity", "Abs"))
    feeds = _feeds([1, 1], [-1, 1])
    assert SampleNoise(wanted, None, "f", feeds, 1, 100).of(TriedForm(other))[0].tolist() == [0.0, 2.0]


def test_as_many_samples_run_as_tell_enough():
    feeds = _feeds([1, 1], [2, 2], [3, 3], [4, 4])
    for least, enough, count in ((1, 4, 2), (3, 4, 3), (1, 100, 4)):
        judge = SampleNoise(_model("y = Neg (x)"), None, "", feeds, least, enough)
        assert judge.of(TriedForm(_model("y = Neg (x)")))[0].size == count


def test_outputs_of_zeros_cannot_be_judged():
    assert not SampleNoise(_model("y = Sub (x, x)"), None, "", _feeds([1, 1]), 1, 1).can_judge
    assert SampleNoise(_model("y = Neg (x)"), None, "", _feeds([1, 1]), 1, 1).can_judge
