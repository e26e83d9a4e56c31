"""Mixed precision: layers that matter get more bits than others, or those that do not get fewer."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from quarkfast.calibration.data import CalibrationData
from quarkfast.config import Scheme
from quarkfast.config.mixed_precision import MixedPrecision
from quarkfast.errors import ConfigError
from quarkfast.graph.external import check_not_a_source
from quarkfast.graph.load import ModelSource, external_files, load_model
from quarkfast.pipeline.context import ModelContext
from quarkfast.pipeline.mixed_layers import described, with_layers
from quarkfast.pipeline.mixed_search import MixedSearch
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.quantize_model import quantize_model
from quarkfast.pipeline.recipes import PREPARATION
from quarkfast.pipeline.step import run_steps
from quarkfast.pipeline.summary import Summary
from quarkfast.quantization import place
from quarkfast.quantization.layer_candidates import LayerCandidate, find_candidates
from quarkfast.statistics import Calibration
from quarkfast.targets import Target
from quarkfast.writers import lowest_opset

__all__ = ["quantize_mixed"]


def quantize_mixed(
    model: ModelSource,
    path: Path | None,
    scheme: Scheme,
    target: Target,
    calibration_data: CalibrationData | None,
    calibration: Calibration | str | os.PathLike[str] | None,
    max_memory: int | str | None,
    clock: Clock,
    histograms: bool = False,
) -> tuple[bytes, Summary]:
    """Quantizes `model` with other types for the layers that ``scheme.mixed_precision`` selects.

    Raises:
        QuarkfastError: As :func:`quarkfast.quantize`. Nothing is left behind.
    """
    settings = scheme.mixed_precision
    assert settings is not None
    base = replace(scheme, mixed_precision=None)
    candidates = _candidates(model, base, target, settings, clock)
    if settings.searches and candidates:
        if calibration_data is None:
            got = "none" if calibration is None else "a calibration"
            raise ConfigError(f"mixed_precision: expected calibration_data to judge outputs on, got {got}")
        if path is not None:
            check_not_a_source(path, model, external_files(load_model(model)))
        search = MixedSearch(model, base, target, settings, candidates, calibration_data, max_memory, clock, histograms)
        return search.run(path)
    chosen = [(each, each.forms[0]) for each in candidates]
    mixed = with_layers(base, chosen)
    found, summary = quantize_model(
        model, path, mixed, target, calibration_data, calibration, max_memory, clock, histograms
    )
    note = f"mixed precision: {described(chosen, candidates)}"
    return found, replace(summary, notes=(*summary.notes, note))


def _candidates(
    model: ModelSource, base: Scheme, target: Target, settings: MixedPrecision, clock: Clock
) -> tuple[LayerCandidate, ...]:
    with clock.stage("load"):
        context = ModelContext(
            model=load_model(model), opset=lowest_opset(base, target), scheme=base, conversions=target.conversions
        )
    with clock.stage("prepare"):
        run_steps(PREPARATION, context)
        placement = place(context.model, base, target)
    return find_candidates(context.model, placement.quantized, settings)
