"""What the outputs of a quantized model would gain if single tensors had 16 bits."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from quarkfast.calibration.data import CalibrationData, Feed
from quarkfast.config import Change, Scheme, TensorRule
from quarkfast.deferred import ir
from quarkfast.errors import ConfigError
from quarkfast.evaluate.distance import AS_THEY_STAND, verdict_on
from quarkfast.evaluate.judge import Judge
from quarkfast.evaluate.tensor_comparison import Prediction
from quarkfast.graph.load import ModelSource
from quarkfast.graph.save import serialize, to_proto
from quarkfast.graph.traced_pairs import with_finer_pairs
from quarkfast.search.quantize import quantize

__all__ = ["Mend", "made_finer", "predict_gains", "quantized_anew"]

Mend = Callable[[Collection[str]], bytes]
"""From names of tensors to the quantized model in which these have 16 bits."""

_SCHEME = "quarkfast.scheme"


def predict_gains(reference: ir.Model, mend: Mend, tensors: Sequence[str], feeds: Sequence[Feed]) -> Prediction:
    """Runs a quantized model in which single tensors have 16 bits, all of them, and all that gain something alone.

    Args:
        reference: The float model.
        mend: Gives the model.
        tensors: Names of tensors as `quarkfast.graph.traced_pairs` finds them.
        feeds: Samples.
    """
    judge = Judge(to_proto(reference), feeds, AS_THEY_STAND)

    def sqnr(names: Collection[str]) -> float:
        return verdict_on(mend(names), judge).sqnr

    now, alone = sqnr(()), tuple((name, sqnr({name})) for name in tensors)
    gaining = {name for name, ratio in alone if ratio > now}
    return Prediction(now, alone, sqnr(set(tensors)), sqnr(gaining) if gaining else now)


def made_finer(model: ir.Model, known: Mapping[str, ir.Value], cut: Collection[str]) -> Mend:
    """Returns what gives tensors 16 bits and leaves the rest of a quantized model as it is.

    Args:
        model: The quantized model, without local functions.
        known: Tensors of the float model by name.
        cut: Tensors whose range was cut for their narrow type, read as they were before they were rounded.
    """

    def mend(names: Collection[str]) -> bytes:
        return serialize(with_finer_pairs(model, known, names, cut))

    return mend


def quantized_anew(reference: ModelSource, model: ir.Model, data: CalibrationData) -> Mend:
    """Returns what quantizes the float model again as it was, with int16 for tensors.

    Args:
        reference: The float model.
        model: The quantized model, whose metadata say how it was made.
        data: The samples that calibrated it.

    Raises:
        ConfigError: If another tool made the model, or its metadata have been changed.
    """
    if _SCHEME not in model.metadata_props:
        raise ConfigError(
            "compare: expected a model that quarkfast quantized, to quantize it anew, got one of another tool; "
            "leave calibration_data out"
        )
    try:
        scheme = Scheme.from_dict(json.loads(model.metadata_props[_SCHEME]))
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"compare: expected the scheme that quarkfast writes as {_SCHEME!r}, got other metadata; "
            "leave calibration_data out"
        ) from error
    change = Change.of({"dtype": "int16"}, "compare")

    def mend(names: Collection[str]) -> bytes:
        rules = tuple(TensorRule(name, change) for name in sorted(names))
        return quantize(reference, None, replace(scheme, tensors=(*scheme.tensors, *rules)), data).model_bytes

    return mend
