"""An algorithm is a file like this one and a row of the registry: settings, statistics, what it works on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from quarkfast.algorithms import ALGORITHMS, Algorithm
from quarkfast.algorithms.cross_layer_equalization import CrossLayerEqualizationSettings, equalize
from quarkfast.config import PRESETS
from quarkfast.graph.load import load_model
from quarkfast.graph.save import to_proto
from quarkfast.kernels import Range
from quarkfast.pipeline.prepare import prepare
from quarkfast.quantization import compute_qparams, make_plan, place
from quarkfast.statistics import StatisticsRequest
from quarkfast.targets import TARGETS
from quarkfast.writers import insert
from support.tiny_models import arrays_of, conv_relu_model, tiny_model


@dataclass(frozen=True)
class _FloorSettings:
    role: str = "weight"


def _floor_settings(scheme):
    return _FloorSettings() if scheme.weight.dtype == "int8" else None


def _floor_request(context, settings):
    return StatisticsRequest.of(context.placement.observed, moments=True)


def _floor(context, settings):
    """Rounds weights down."""
    for slot, weight in context.plan.constants:
        if slot.role == settings.role:
            codes = np.floor(weight.values.numpy() / weight.quantizer.scale).clip(-127, 127).astype(np.int8)
            context.plan = context.plan.with_constant(slot, replace(weight, codes=codes))
    return True


FLOOR = Algorithm("floor", "codes", _floor_settings, _floor, _floor_request)


def _context(preset):
    scheme = PRESETS[preset]
    model = prepare(load_model(conv_relu_model()), 13)
    target = TARGETS[scheme.target]
    placement = place(model, scheme, target)
    ranges = {name: Range(-1, 1, 1, 0, 0, 0) for name in placement.observed}
    quantizers = compute_qparams(model, placement, scheme, target, ranges)
    plan = make_plan(model, placement, quantizers, scheme)
    return SimpleNamespace(model=model, scheme=scheme, placement=placement, statistics={}, plan=plan)


def test_a_row_of_ones_own_is_a_step_that_changes_codes():
    context = _context("A8W8")
    assert FLOOR.applies(context)
    assert set(FLOOR.requires(context).tensors) == set(context.placement.observed)
    assert FLOOR.run(context)
    scheme = context.scheme
    weights = arrays_of(context.model)["w1"]
    insert(context.model, context.plan, scheme, TARGETS[scheme.target])
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in to_proto(context.model).graph.initializer}
    assert np.array_equal(stored["w1_quantized"], np.floor(weights / stored["w1_scale"]).clip(-127, 127))


def test_a_row_that_the_scheme_does_not_want_does_nothing():
    context = _context("BF16")
    assert not FLOOR.applies(context)
    assert not FLOOR.requires(context).tensors
    assert not FLOOR.run(context)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda each: each.name)
def test_every_row_says_what_it_works_on_and_has_frozen_settings(algorithm):
    pairs = [(name, each) for name in ("DYNAMIC", "XINT8", "A8W8") for each in ("nearest", "descent")]
    wanted = {"equalize": True, "rotation": "hadamard", "output_bias_correction": True}
    schemes = [replace(PRESETS[name], rounding=each, **wanted) for name, each in pairs]
    settings = next(each for each in map(algorithm.settings, schemes) if each is not None)
    assert algorithm.works_on in ("float weights", "scales", "codes")
    assert settings.__dataclass_params__.frozen
    assert algorithm.settings(replace(PRESETS["DYNAMIC"], equalize=False, bias_correction=False)) is None


def test_layers_may_be_equalized_more_than_once():
    rng = np.random.default_rng(3)
    text = "g (float[N, 4] x) => (float[N, 4] y) { a = Gemm(x, w0) b = Gemm(a, w1) y = Gemm(b, w2) }"
    names = ("w0", "w1", "w2")
    proto = tiny_model(text, {name: rng.lognormal(0, 2, (4, 4)).astype(np.float32) for name in names})

    def spread(steps):
        model = prepare(load_model(proto), 13)
        equalize(model, CrossLayerEqualizationSettings("exact", cle_steps=steps, largest_factor=1e9))
        first, second, _ = (np.abs(arrays_of(model)[name]) for name in names)
        return float(np.abs(np.log(first.max(axis=0) / second.max(axis=1))).max())

    assert spread(1) > 0.1
    assert spread(8) < spread(1) / 2
