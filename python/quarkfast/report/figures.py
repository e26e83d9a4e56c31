"""The figures of the page: the error along the network, where the bytes are, what was tried, how long stages took."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from quarkfast.evaluate.tensor_comparison import TensorComparison
from quarkfast.quantization.record_plan import Records
from quarkfast.report.compared import measured_places, places_of
from quarkfast.report.markup import Markup, decibels, element, join, number, percent, size, table
from quarkfast.report.plots import Series, drawing, frame, marks, polyline, stacked_bar

__all__ = ["bytes_figure", "depth_figure", "depth_series", "seconds_figure", "tried_figure"]

_HEIGHT = 340

# Ratios in dB that would stretch the axis for nothing: 100 dB are more than the 16 bits of any codes lose.
_EXACT = 100.0

# Classes of the style for parts of a bar; what comes after the last shares it.
_PARTS = ("p0", "p1", "p2", "p3", "p4", "p5")


def _figure(picture: Markup, legend: Sequence[Series], caption: str) -> Markup:
    items = [element("li", element("span", class_=f"key {each.kind}"), each.name) for each in legend]
    return element(
        "figure",
        element("figcaption", caption),
        element("ul", *items, class_="legend") if len(items) > 1 else None,
        picture,
    )


def depth_series(records: Records, compared: Sequence[TensorComparison] = ()) -> list[Series]:
    """Returns the ratios of tensors by the place of the node that computes or reads them, kinds apart."""
    place = places_of(records)
    expected: dict[str, list[tuple[float, float]]] = {"weight": [], "activation": []}
    for name, tensor in records.tensors.items():
        if tensor.sqnr is not None and name in place:
            kind = "activation" if tensor.kind == "activation" else "weight"
            expected[kind].append((place[name], tensor.sqnr))
    measured = measured_places(records, compared)
    whole = [(index, row.sqnr) for index, row in measured if row.kind != "weight" and row.sqnr is not None]
    own = [(index, row.rounding_sqnr) for index, row in measured if row.rounding_sqnr is not None]
    expected = {kind: [each for each in points if each[1] < _EXACT] for kind, points in expected.items()}
    whole, own = ([each for each in points if each[1] < _EXACT] for points in (whole, own))
    series = [
        Series("measured: as it accumulates", "whole", whole),
        Series("measured: its own rounding alone", "own", own),
        Series("expected of an activation's own rounding", "activation", sorted(expected["activation"])),
        Series("expected of a weight's own rounding", "weight", sorted(expected["weight"])),
    ]
    return [each for each in series if each.finite]


def depth_figure(series: Sequence[Series]) -> Markup | None:
    """Returns a plot of ratios along the network, or None where none is known."""
    if not series:
        return None
    axes = frame(series, _HEIGHT, "node, in the order in which they run", "dB")
    shapes = [polyline(each, axes) if each.kind == "whole" else None for each in series]
    points = [marks(each, axes) for each in series]
    lowest = min((y, x) for each in series for x, y in each.finite)
    text = (
        f"{sum(len(each.finite) for each in series)} points; the lowest is {lowest[0]:.1f} dB at node {lowest[1]:.0f}."
    )
    picture = drawing(
        "depth",
        "Signal to quantization noise along the network",
        text,
        _HEIGHT,
        axes.axes,
        *shapes,
        *points,
        scales=axes.scales,
    )
    caption = (
        "Signal to quantization noise along the network; higher is better, 6 dB are one bit. What is above 100 dB is "
        "left out."
    )
    return _figure(picture, series, caption)


def bytes_figure(before: int, after: int, sizes: Mapping[str, int]) -> Markup:
    """Returns both models as bars, and a table of what the bytes of the result hold."""
    known = sorted(sizes.items(), key=lambda each: -each[1])
    whole = max(before, after, 1)
    parts = [
        (f"{name}: {size(count)}", count, _PARTS[min(index, len(_PARTS) - 1)])
        for index, (name, count) in enumerate(known)
    ] or [(f"after: {size(after)}", after, "p0")]
    bars = (
        element("text", f"before: {size(before)}", x=0, y=22, class_="axis"),
        stacked_bar([(f"before: {size(before)}", before, "before")], whole, 34, 30),
        element("text", f"after: {size(after)}", x=0, y=98, class_="axis"),
        stacked_bar(parts, whole, 110, 30),
    )
    text = f"{size(before)} before, {size(after)} after; the parts are in the table below."
    picture = element("figure", drawing("bytes", "Bytes of the model before and after", text, 146, *bars))
    if not known:
        return picture
    rows = [
        (join([element("span", class_=f"key {parts[index][2]}"), name]), f"{count:,}", percent(count / max(after, 1)))
        for index, (name, count) in enumerate(known)
    ]
    held = table("What the bytes of the quantized model hold", ("part", "bytes", "share"), rows, numbers=(1, 2))
    return join([picture, held])


def tried_figure(document: Mapping[str, Any]) -> Markup | None:
    """Returns what a quality target or mixed precision tried, as a plot and a table; None where nothing was."""
    levers: Sequence[Mapping[str, Any]] = document.get("levers", ())
    if not levers:
        return None
    front = frozenset(document.get("pareto_front", ()))
    metric = any(each["metric"] is not None for each in levers)
    parts = [_tried_plot(levers, front, metric=metric), _tried_table(levers, front, metric=metric)]
    return join(part for part in parts if part is not None)


def _tried_plot(levers: Sequence[Mapping[str, Any]], front: frozenset[str], *, metric: bool) -> Markup | None:
    found = [(each, (each["bytes"] / 1e6, _quality(each, metric=metric))) for each in levers]
    series = [
        Series(
            "smaller or better than all others (Pareto front)",
            "front",
            sorted(point for each, point in found if each["lever"] in front),
        ),
        Series("kept", "kept", [point for each, point in found if each["kept"]]),
        Series("not kept", "dropped", [point for each, point in found if not each["kept"]]),
    ]
    shown = [each for each in series if each.finite]
    if not shown:
        return None
    axes = frame(shown, _HEIGHT, "megabytes", "metric" if metric else "dB")
    labels = [
        element("text", index, x=f"{axes.x(x):.1f}", y=f"{axes.y(y) - 10:.1f}", class_="tick mid")
        for index, (_, (x, y)) in enumerate(found, 1)
        if math.isfinite(y)
    ]
    drawn = [(polyline if each.kind == "front" else marks)(each, axes) for each in shown]
    text = f"{len(levers)} tries, numbered as in the table below."
    picture = drawing("tried", "What was tried: quality by size", text, _HEIGHT, axes.axes, *drawn, *labels)
    return _figure(picture, shown, "Quality by size of what was tried; up and to the left is better.")


def _tried_table(levers: Sequence[Mapping[str, Any]], front: frozenset[str], *, metric: bool) -> Markup:
    assured = any(each.get("assured") is not None for each in levers)
    heads = [
        "tried",
        "dB",
        *(["dB assured"] if assured else []),
        *(["metric"] if metric else []),
        "bytes",
        "seconds",
        "kept",
        "Pareto front",
    ]
    rows = [
        (
            f"{index}. {each['lever']}",
            *(decibels(math.inf if each[name] is None else each[name]) for name in ("sqnr", *["assured"] * assured)),
            *([number(each["metric"])] if metric else []),
            f"{each['bytes']:,}",
            f"{each['seconds']:.1f}",
            "yes" if each["kept"] else "no",
            "yes" if each["lever"] in front else "no",
        )
        for index, each in enumerate(levers, 1)
    ]
    return table("What was tried, in this order", heads, rows, numbers=range(1, len(heads) - 2))


def _quality(lever: Mapping[str, Any], *, metric: bool) -> float:
    ratios = [each for each in (lever["sqnr"], lever.get("logits")) if each is not None]
    found = lever["metric"] if metric else min(ratios, default=None)
    return math.nan if found is None else float(found)


def seconds_figure(seconds: Mapping[str, float]) -> Markup | None:
    """Returns the stages and their wall time as a table with bars; None without stages."""
    total = sum(seconds.values())
    if not total:
        return None
    rows = [(stage, f"{taken:.2f}", bar(taken / total)) for stage, taken in seconds.items()]
    return table("Wall time of each stage", ("stage", "seconds", "share"), rows, numbers=(1,))


def bar(share: float) -> Markup:
    """Returns a bar for a cell of a table: `share` of 0 to 1 of its width."""
    part = element("rect", width=f"{max(share, 0.0) * 100:.1f}", height=10, class_="p0")
    return element("svg", part, viewBox="0 0 100 10", class_="bar", preserveAspectRatio="none", aria_hidden="true")
