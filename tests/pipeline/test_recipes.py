"""Recipes are tuples of steps, and a step of one's own is one row more."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import quarkfast
from quarkfast.algorithms import ALGORITHMS
from quarkfast.calibration import calibrate_prepared
from quarkfast.config import scheme_from
from quarkfast.errors import CalibrationError, ModelError
from quarkfast.pipeline import recipes
from quarkfast.pipeline.context import ModelContext
from quarkfast.pipeline.recipes import DYNAMIC, PREPARATION, STATIC, WEIGHT_ONLY, recipe_of
from quarkfast.pipeline.step import FunctionStep
from quarkfast.statistics import StatisticsRequest
from support.tiny_models import conv_relu_model, samples, tiny_model

PRODUCT = "g (float[N, 8] x) => (float[N, 8] y) { n = Relu (x) y = MatMul (n, w) }"


def _product(rng):
    return tiny_model(PRODUCT, {"w": rng.standard_normal((8, 8)).astype(np.float32)})


def _names(steps):
    return [step.name for step in steps]


@pytest.mark.parametrize("name", quarkfast.PRESETS)
def test_each_preset_has_one_of_three_recipes(name):
    scheme = quarkfast.PRESETS[name]
    expected = WEIGHT_ONLY if scheme.weights_only else DYNAMIC if name == "DYNAMIC" else STATIC
    assert recipe_of(scheme) is expected


@pytest.mark.parametrize(
    ("preset", "absent"), [("A8W8", set()), ("BF16", {"cross-layer equalization", "choose ranges"})]
)
def test_a_plan_names_the_steps_that_would_run(preset, absent):
    found = quarkfast.plan(conv_relu_model(), preset)
    assert absent.isdisjoint(found.recipe)
    assert absent <= set(_names(STATIC))
    assert ("recipe", f"{len(found.recipe)} steps") in found.rows()
    assert found.to_dict()["recipe"] == list(found.recipe)


def test_a_plan_of_weights_alone_names_their_steps():
    names = _names(WEIGHT_ONLY)
    names.remove("fix shapes")
    names.remove("widen weights")  # for which there have to be samples
    assert quarkfast.plan(conv_relu_model(), "INT8_WO", rounding="gptq").recipe == tuple(names)
    names.remove("weight rounding")
    assert quarkfast.plan(conv_relu_model(), "INT8_WO").recipe == tuple(names)


@dataclasses.dataclass(frozen=True)
class _Largest:
    """A step as a class with a setting, as algorithms are: it knows nothing of the pipeline."""

    seen: list
    tensors: tuple = ("y",)
    name: str = "look at the largest value"
    stage: str = "insert"

    def applies(self, context):
        return not context.scheme.weights_only

    def requires(self, context):
        return StatisticsRequest.of(self.tensors, moments=True)

    def run(self, context):
        self.seen.extend(context.calibration.tensors[name] for name in self.tensors)
        return False


def _with_step(monkeypatch, recipe, before, step):
    """Makes the static recipe one with `step` in front of the step of that name."""
    index = _names(recipe).index(before)
    changed = (*recipe[:index], step, *recipe[index:])
    monkeypatch.setattr(recipes, "STATIC", changed)
    return changed


@pytest.fixture
def requests(monkeypatch):
    """The request of each run over samples."""
    asked = []

    def remember(run, samples, report):
        asked.append(run.request)
        return calibrate_prepared(run, samples, report)

    monkeypatch.setattr("quarkfast.pipeline.calibration_source.calibrate_prepared", remember)
    return asked


def test_a_step_of_a_recipe_is_one_row(monkeypatch, requests):
    """What it requires is merged with what the other steps of its stage do, and samples run once."""
    expected = quarkfast.quantize(conv_relu_model(), calibration_data=samples())
    step = _Largest([])
    _with_step(monkeypatch, STATIC, "choose ranges", step)
    result = quarkfast.quantize(conv_relu_model(), calibration_data=samples())
    assert result.model_bytes == expected.model_bytes
    assert step.name in quarkfast.plan(conv_relu_model()).recipe
    assert [each.moments is not None for each in step.seen] == [True]
    assert len(requests) == 2
    assert set(requests[1]) == set(requests[0]) | {"y"}
    assert requests[1].tensors["y"].moments


@pytest.mark.parametrize("kind", ["array", "iterator"])
def test_a_step_of_a_later_stage_has_another_pass(monkeypatch, requests, kind):
    """The first runs the model before it is rewritten; a one-shot iterable is read from the disk the second time."""
    data = samples(6)
    expected = quarkfast.quantize(conv_relu_model(), calibration_data=data, batch_size=2)
    step = _Largest([], stage="look", name="look before")
    _with_step(monkeypatch, STATIC, "choose ranges", step)
    given = data if kind == "array" else iter([data[:2], data[2:4], data[4:]])
    result = quarkfast.quantize(conv_relu_model(), calibration_data=given, batch_size=2)
    assert result.model_bytes == expected.model_bytes
    assert result.summary.samples == 6
    assert [list(each) for each in requests[1:]] == [["y"], list(requests[0])]
    assert "look" in result.summary.seconds


def test_a_rewrite_that_changes_the_model_says_so(rng):
    proto = tiny_model(
        "g (float[N, 8] x) => (float[N, 8] y) { i = Identity (x) k = Add (c, c) y = Add (i, k) }",
        {"c": np.ones(8, np.float32)},
    )
    from quarkfast.graph.load import load_model

    def changes(model):
        context = ModelContext(model=model, opset=13, scheme=quarkfast.PRESETS["FP16"])
        found = [step.name for step in PREPARATION if step.applies(context) and step.run(context)]
        return found, context.model

    first, prepared = changes(load_model(proto))
    assert first == ["clean", "fold constants"]
    assert changes(prepared)[0] == []


def test_an_error_names_its_step():
    proto = tiny_model("g (float[N, 8] x) => (float[N, 8] y) { y = Add (x, c) }", {"c": np.full(8, np.nan, np.float32)})
    with pytest.raises(ModelError, match="expected numbers") as caught:
        quarkfast.quantize(proto, calibration_data=np.ones((2, 8), np.float32))
    assert caught.value.__notes__ == ["in step 'check constants' of the recipe"]
    assert "step" not in caught.value.args[0]


def test_requests_of_different_axes_are_refused(monkeypatch, rng):
    other = FunctionStep(
        "rows", "insert", lambda context: False, requires=lambda context: StatisticsRequest.of_channels({"n": 0})
    )
    index = _names(DYNAMIC).index("outlier channel splitting")
    monkeypatch.setattr(recipes, "DYNAMIC", (*DYNAMIC[:index], other, *DYNAMIC[index:]))
    with pytest.raises(CalibrationError, match="expected one axis of a tensor's channels"):
        quarkfast.quantize(_product(rng), preset="DYNAMIC", calibration_data=np.ones((2, 8), np.float32))


def test_a_model_with_nothing_to_quantize_ends_the_recipe(monkeypatch):
    proto = tiny_model("g (float[N, 8] x) => (float[N, 8] y) { y = Identity (x) }", {})
    with pytest.warns(UserWarning, match="nothing in the model can be quantized"):
        result = quarkfast.quantize(proto)
    assert "insert" not in result.summary.seconds


@pytest.mark.parametrize("recipe", [STATIC, DYNAMIC, WEIGHT_ONLY])
def test_algorithms_of_a_recipe_are_in_their_order(recipe):
    own = [step for step in recipe if step in ALGORITHMS]
    assert own == [each for each in ALGORITHMS if each in own]


def test_a_recipe_has_rows_that_may_run_under_a_scheme_of_its_own():
    turned, chosen = {"rotation": "hadamard"}, {"rounding": "descent"}
    schemes = {
        "static": [("A8W8", turned), ("A8W8", {"output_bias_correction": True}), ("XINT8", chosen)],
        "dynamic": [("DYNAMIC", turned | chosen)],
        "stored": [("INT8_WO", {"rounding": "gptq"})],
    }
    for kind, recipe in (("static", STATIC), ("dynamic", DYNAMIC), ("stored", WEIGHT_ONLY)):
        idle = [
            step.name
            for step in recipe
            if step in ALGORITHMS and not any(step.settings(scheme_from(*each)) for each in schemes[kind])
        ]
        assert idle == []
    assert set(ALGORITHMS) <= {*STATIC, *DYNAMIC}
