"""Options that rewrite the float model on request, and are left out where the outputs on samples are worse for it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from quarkfast.calibration.data import CalibrationData, Feed, model_inputs, open_data
from quarkfast.config import Scheme
from quarkfast.evaluate.judge import Judge, hold_out
from quarkfast.evaluate.noise import Gains
from quarkfast.graph.external import check_not_a_source
from quarkfast.graph.load import ModelSource, external_files, load_model, model_bytes
from quarkfast.graph.save import to_proto
from quarkfast.pipeline.context import Uncorrected
from quarkfast.pipeline.further_equalization import EQUALIZATION_SETTINGS, further_equalization
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.quantize_model import quantize_model
from quarkfast.pipeline.remembered import Remembered
from quarkfast.pipeline.single_rows import cut_to_rows
from quarkfast.pipeline.summary import Summary
from quarkfast.quantization.weight_precision import USUAL
from quarkfast.statistics import Calibration
from quarkfast.targets import Target

__all__ = ["is_judged", "quantize_judged"]

_SHIFTING = "activation shifting"

# What the options are called, with their fields in a scheme and what leaves them out.
_OPTIONS = (
    ("SmoothQuant", "smooth_alpha", None),
    ("Hadamard rotation", "rotation", "none"),
    (_SHIFTING, "shift_activations", False),
)

# In dB, what equalization through gates or Clips has to bring in the mean, for a Mul in front of each gate. Where the
# samples that judge gain less, 32 others had -5 to +0.8 dB by it.
_GAIN_OF_EQUALIZATION = 1.0

# Samples that calibrate what is judged.
_CALIBRATING = 48

# Fewer samples than this tell nothing of others.
_FEWEST = 4

# Bytes of a model above which three of it are not held at once.
_LARGEST = 1 << 30


def is_judged(scheme: Scheme) -> bool:
    """Whether a scheme has an option that is judged: not with `strict`, which keeps what was asked for.

    Example:
        >>> from quarkfast.config import PRESETS, scheme_from
        >>> is_judged(PRESETS["A8W8"]), is_judged(scheme_from("A8W8", {"smooth_alpha": 0.5}))
        (False, True)
    """
    return not scheme.strict and bool(_asked(scheme))


def quantize_judged(
    model: ModelSource,
    path: Path | None,
    scheme: Scheme,
    target: Target,
    calibration_data: CalibrationData | None,
    calibration: Calibration | str | os.PathLike[str] | None,
    max_memory: int | str | None,
    clock: Clock,
    histograms: bool = False,
    *,
    may_correct_biases: bool = True,
) -> tuple[bytes, Summary]:
    """Quantizes `model`, without the options that rewrite it if these make its outputs worse, or do too little.

    Models are made, with these options and without them, by some of the samples, and judged on others. What is
    returned is made by all samples. Random samples, a calibration and large models judge nothing: options stay.

    Raises:
        QuarkfastError: As :func:`quarkfast.quantize`. Nothing is left behind.
    """
    given: tuple[Any, ...] = (max_memory, clock, histograms)
    make = partial(quantize_model, uncorrected=Uncorrected() if may_correct_biases else None)
    loaded = load_model(model)
    if calibration_data is None or model_bytes(model, loaded) > _LARGEST:
        return make(model, path, scheme, target, calibration_data, calibration, *given)
    if path is not None:
        check_not_a_source(path, model, external_files(loaded))
    samples = open_data(calibration_data, model_inputs(loaded), scheme.samples, scheme.batch_size, scheme.preprocess)
    if samples.random:
        return make(model, path, scheme, target, calibration_data, calibration, *given)
    cut_to_rows(samples, loaded)
    reference = to_proto(loaded)
    del loaded
    feeds = [dict(feed) for feed in samples]
    read = replace(scheme, samples=None, preprocess=None)
    chosen, note = read, None
    if len(feeds) >= _FEWEST:
        calibrating, judged = hold_out(feeds)
        chosen, note = _choose(model, reference, read, target, calibrating[:_CALIBRATING], judged, max_memory, clock)
    data, summary = make(model, path, chosen, target, feeds, None, *given)
    return data, summary if note is None else replace(summary, notes=(*summary.notes, note))


def _asked(scheme: Scheme) -> list[str]:
    """Returns the names of the options that a scheme has."""
    names = [name for name, field, none in _OPTIONS if getattr(scheme, field) != none]
    further = further_equalization(scheme)
    return names if further is None else [*names, further]


def _without(scheme: Scheme) -> Scheme:
    left_out: dict[str, Any] = {field: none for _, field, none in _OPTIONS}
    others = tuple((name, value) for name, value in scheme.equalize_options if name not in EQUALIZATION_SETTINGS)
    return replace(scheme, **left_out, equalize_options=others)


def _choose(
    model: ModelSource,
    reference: onnx.ModelProto,
    scheme: Scheme,
    target: Target,
    calibrating: Sequence[Feed],
    judged: Sequence[Feed],
    max_memory: int | str | None,
    clock: Clock,
) -> tuple[Scheme, str | None]:
    """Returns the scheme to take, and why the options are left out; None where they stay.

    Offsets go with the ranges that are kept, so that both kinds of these are tried where the user named none.
    """
    alone = _asked(scheme) == [_SHIFTING]  # which is for activations, whatever the codes of weights
    remembered = Remembered()

    def ratios(tried: Scheme) -> NDArray[Any]:
        tried = replace(tried, rounding="nearest", rounding_options=()) if alone else tried
        given: tuple[Any, ...] = (calibrating, None, max_memory, clock, False, USUAL, remembered)
        data, _ = quantize_model(model, None, tried, target, *given)
        with clock.stage("judge"):
            return judge.noise(data).ratios()

    left, kinds = _without(scheme), [scheme]
    if scheme.shift_activations and scheme.search_ranges is None and scheme.activation.method == "minmax":
        kinds.append(replace(scheme, activation=replace(scheme.activation, method="minmse")))
    with clock.stage("judge"):
        judge = Judge(reference, judged)
    with judge:
        before = ratios(left)
        found = [(Gains(before, ratios(kind)), kind) for kind in kinds]
    gains, best = max(found, key=lambda each: each[0].mean)
    if _asked(scheme) == [further_equalization(scheme)]:
        poor, why = gains.mean < _GAIN_OF_EQUALIZATION, f"it brought less than {_GAIN_OF_EQUALIZATION:g} dB"
    else:  # The best of several may be so by chance, and is no reason for further nodes.
        poor, why = gains.mean < 0 if len(kinds) > 1 else gains.are_losses(), "it made the model worse"
    if not poor:
        return best, None
    names = " and ".join(_asked(scheme))
    return left, f"{names} was left out, for {why}: {gains}; strict=True keeps it"
