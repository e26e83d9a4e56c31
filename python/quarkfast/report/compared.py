"""Tensors of the quantized model beside their float originals: the ten that cost most, and all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

from quarkfast.evaluate.tensor_comparison import TensorComparison
from quarkfast.quantization.record_plan import Records
from quarkfast.report.markup import Markup, decibels, element, join, percent, table

__all__ = ["compared_tables", "lowest_table", "measured_places", "places_of"]

# Rows of the table of tensors that cost most.
_LOWEST = 10

_MEASURED = ("own rounding dB", "all errors dB", "clipped", "range used", "worst channels")


def places_of(records: Records) -> dict[str, int]:
    """Returns the place of the node that computes each tensor, or of the first that reads it."""
    place: dict[str, int] = {}
    for index, node in enumerate(records.nodes):
        for name in node.inputs:
            place.setdefault(name, index)
        place.update((name, index) for name in node.outputs)
    return place


def measured_places(records: Records, compared: Sequence[TensorComparison]) -> list[tuple[int, TensorComparison]]:
    """Returns the rows whose tensor is known, each with its place, in the order of places."""
    place = places_of(records)
    found = ((place[row.tensor], row) for row in compared if row.tensor in place)
    return sorted(found, key=lambda each: each[0])


def lowest_table(records: Records, compared: Sequence[TensorComparison] = ()) -> Markup | None:
    """Returns the ten tensors whose own rounding costs most, measured where it was, with links to their nodes."""
    place = places_of(records)
    measured = {row.tensor: row for row in compared if row.tensor in place and _is_finite(row.rounding_sqnr)}
    title = "measured" if measured else "as expected from calibration"
    found = [(row.rounding_sqnr, name) for name, row in measured.items()]
    if not measured:
        found = [(each.sqnr, each.name) for each in records.tensors.values() if each.name in place]
    rows = []
    for ratio, name in sorted((ratio, name) for ratio, name in found if _is_finite(ratio))[:_LOWEST]:
        node, tensor = records.nodes[place[name]], records.tensors.get(name)
        link = element("a", node.name or node.op_type, href=f"#n{place[name]}")
        kind = "\u2013" if tensor is None else f"{tensor.dtype} {tensor.kind}"
        cells = _cells(measured[name]) if name in measured else (decibels(ratio),)
        rows.append((element("code", name), *cells, join([f"{node.op_type} ", link]), kind))
    figures = _MEASURED if measured else ("dB",)  # first, where a telephone shows them
    caption = f"Tensors whose own rounding costs most, {title}"
    heads = ("tensor", *figures, "node", "kind")
    return table(caption, heads, rows, numbers=range(1, min(len(heads) - 2, 5))) if rows else None


def compared_tables(
    compared: Sequence[TensorComparison], samples: int, not_compared: Sequence[str] = ()
) -> Markup | None:
    """Returns what was measured of every tensor, and which were not compared, both to be opened."""
    parts = []
    if compared:
        rows = [(element("code", each.tensor), each.dtype or each.kind, *_cells(each)) for each in compared]
        caption = f"Every quantized tensor beside its float original on {samples} samples, with exact sums"
        found = table(caption, ("tensor", "codes", *_MEASURED), rows, numbers=range(2, 6))
        parts.append(element("details", element("summary", f"All {len(rows)} tensors that were measured"), found))
    if not_compared:
        items = element("ul", *(element("li", line) for line in not_compared))
        parts.append(element("details", element("summary", f"{len(not_compared)} were not compared"), items))
    return join(parts) if parts else None


def _cells(found: TensorComparison) -> tuple[str, ...]:
    return (
        decibels(found.rounding_sqnr),
        decibels(found.sqnr),
        percent(found.clipped),
        percent(found.used),
        found.channels_told or "\u2013",
    )


def _is_finite(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)
