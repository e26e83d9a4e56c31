"""Peak ranges: what a Softmax reads is not cut off where that changes what the Softmax gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.algorithm import Algorithm, Context, Settings
from quarkfast.config import Scheme, TensorSpec
from quarkfast.deferred import ir
from quarkfast.evaluate.partial_model import Feed, Piece
from quarkfast.graph.access import is_constant, is_standard, name_of
from quarkfast.graph.operators import MOVERS
from quarkfast.kernels import Range
from quarkfast.ranges.params import params_for

__all__ = ["PEAK_RANGES", "PeakRangeSettings"]

_SOFTMAX = frozenset({"LogSoftmax", "Softmax"})

# Between a range and the one that holds all, where scales are no powers of two.
_PARTS = 4


@dataclass(frozen=True, slots=True)
class PeakRangeSettings:
    """Settings of peak ranges.

    Attributes:
        samples: How many samples tell what a Softmax gives.
        least_gain: What the error of the Softmax has to fall by, as a ratio: a decibel.
    """

    samples: int = 8
    least_gain: float = 10**0.1


def _run(context: Context, settings: PeakRangeSettings) -> bool:
    """Widens ranges of what a Softmax reads where its results then lose a decibel less, in place.

    Of the logits of 18,000 classes all but one in each row lie around zero, and a range of least squared error cuts
    that one off. A Softmax divides its probability by e to the power of what was cut off.

    1. Looked at are integers that Softmax or LogSoftmax alone read, through what moves them by constants, and whose
       largest value lies beyond their range by a step or more. Ranges that the user or the target gives stay.
    2. The float model gives these tensors on a few samples. They are rounded by the range of the method and by wider
       ones up to what calibration saw, octaves where scales are powers of two; what the Softmax makes of that counts.
    3. The range of least squared error is taken if that is a decibel less than with the method's.
    """
    readers = {name: found for name, found in _picked(context.model).items() if _is_cut(context, name)}
    if not readers or not context.may_run_samples:
        return False
    model, feeds = context.float_proto(), context.read_samples(settings.samples)
    values = Piece(model, list(readers), [])
    seen = [dict(zip(readers, values.run(feed), strict=True)) for feed in feeds]
    found: dict[str, Range] = {}
    for name, outputs in readers.items():
        kinds = [context.ranges[name], *_wider(context, name)]
        piece = Piece(model, outputs, [name])
        errors = [_error(piece, name, context.placement.specs[name], kind, feeds, seen) for kind in kinds]
        best = int(np.argmin(errors))
        if errors[0] > settings.least_gain * errors[best]:
            found[name] = kinds[best]
    if not found:
        return False
    context.take_plan(context.plan_with({**context.ranges, **found}))
    context.wider = {**context.wider, **found}
    context.notes.append(_note(list(found)))
    return True


def _picked(model: ir.Model) -> dict[str, list[str]]:
    """Returns the tensors that Softmax alone reads, and the names of what it makes of each."""
    found = {name_of(value): _softmaxes(value) for node in model.graph for value in node.outputs}
    return {name: outputs for name, outputs in found.items() if outputs}


def _softmaxes(value: ir.Value) -> list[str]:
    """Returns what each Softmax makes of a tensor; none if anything else reads it."""
    found: list[str] = []
    for reader, index in value.uses():
        standard = is_standard(reader) and index == 0
        if standard and reader.op_type in _SOFTMAX:
            made = [name_of(reader.outputs[0])]
        else:
            made = _softmaxes(reader.outputs[0]) if standard and _moves(reader) else []
        if not made or value.is_graph_output():
            return []
        found += made
    return found


def _moves(node: ir.Node) -> bool:
    """Whether a node moves what it reads by constants alone: what comes of it then depends on nothing else."""
    others = [value for value in node.inputs[1:] if value is not None]
    return node.op_type in MOVERS and all(map(is_constant, others))


def _is_cut(context: Context, name: str) -> bool:
    """Whether the largest value of a tensor with a range of its own lies beyond it by a step or more."""
    kept, seen, spec = context.ranges.get(name), context.statistics.get(name), context.placement.specs.get(name)
    if kept is None or seen is None or spec is None or not spec.format.is_integer or name in context.placement.fixed:
        return False
    return bool(kept.min <= kept.max and seen.range.finite and seen.range.max >= _top(kept, spec, steps=1))


def _top(kept: Range, spec: TensorSpec, steps: int = 0) -> float:
    params = params_for(kept.min, kept.max, spec)
    return (int(params.qmax) - int(params.zero_point) + steps) * float(params.scale)


def _wider(context: Context, name: str) -> Iterator[Range]:
    """Yields ranges up to the one that holds the largest value."""
    kept, peak, spec = context.ranges[name], float(context.statistics[name].range.max), context.placement.specs[name]
    if spec.scale != "power_of_two":
        start = _top(kept, spec)
        yield from (replace(kept, max=start + (peak - start) * part / _PARTS) for part in range(1, _PARTS + 1))
        return
    while peak >= _top(kept, spec, steps=1):
        kept = replace(kept, min=2 * kept.min, max=2 * kept.max)
        yield kept


def _error(
    piece: Piece, name: str, spec: TensorSpec, kind: Range, feeds: Sequence[Feed], seen: Sequence[Mapping[str, Any]]
) -> float:
    """Returns the squared error of what the Softmax makes of the rounded tensor."""
    total = 0.0
    for feed, values in zip(feeds, seen, strict=True):
        wanted = piece.run({**feed, name: values[name]})
        got = piece.run({**feed, name: _rounded(values[name], kind, spec)})
        total += sum(float(np.square(a.astype(np.float64) - b).sum()) for a, b in zip(wanted, got, strict=True))
    return total


def _rounded(values: NDArray[Any], kind: Range, spec: TensorSpec) -> NDArray[np.float32]:
    params = params_for(kind.min, kind.max, spec)
    zero = int(params.zero_point)
    codes = np.clip(np.rint(values / params.scale) + zero, int(params.qmin), int(params.qmax))
    rounded: NDArray[np.float32] = ((codes - zero) * params.scale).astype(np.float32)
    return rounded


def _note(names: Sequence[str]) -> str:
    words = ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"ranges hold more of the largest values, by which a Softmax decides: {words}"


def _settings(scheme: Scheme) -> Settings | None:
    spec = scheme.activation
    wanted = scheme.encoding != "dynamic" and not scheme.weights_only and spec.format.is_integer and not scheme.strict
    return PeakRangeSettings() if wanted else None


def _reread(settings: PeakRangeSettings) -> int:
    return settings.samples


PEAK_RANGES = Algorithm("peak ranges", "scales", _settings, _run, reread=_reread)
