"""Drawings as SVG elements: frames with axes, points, bars. Colours and sizes of letters are those of the page's style.

A drawing is 720 units wide, and letters have the size that the style gives them, so that they can be read on a
telephone, where a unit is half a pixel; margins have room for that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from quarkfast.report.markup import Markup, element, join
from quarkfast.report.scales import Scale, padded, ticks

__all__ = ["Frame", "Series", "drawing", "frame", "marks", "polyline", "stacked_bar"]

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 86, 16, 30, 58


class Frame(NamedTuple):
    """The two scales of a plot, and its axes as markup."""

    x: Scale
    y: Scale
    axes: Markup

    @property
    def scales(self) -> str:
        """Low, high, start and end of x, and of y, with spaces between."""
        return " ".join(f"{value:.6g}" for value in (*self.x, *self.y))


class Series(NamedTuple):
    """Points of one kind.

    Attributes:
        name: What the legend calls them.
        kind: Class of the style: decides colour and shape.
        points: Pairs of x and y; those that are not finite are left out.
    """

    name: str
    kind: str
    points: Sequence[tuple[float, float]]

    @property
    def finite(self) -> list[tuple[float, float]]:
        """The points that can be drawn."""
        return [(x, y) for x, y in self.points if math.isfinite(x) and math.isfinite(y)]


def drawing(name: str, title: str, text: str, height: int, *children: object, scales: str | None = None) -> Markup:
    """Returns a picture with what a screen reader says about it.

    Args:
        name: Unique in the page.
        title: What it is.
        text: What can be seen in it.
        height: In units; the width is 720.
        children: What is drawn.
        scales: For a script that finds what lies under the pointer (:meth:`Frame.scales`).
    """
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", text, id=f"{name}-desc"),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {height}",
        role="img",
        id=name,
        data_scales=scales,
        aria_labelledby=f"{name}-title {name}-desc",
    )


def frame(
    series: Iterable[Series], height: int, x_title: str, y_title: str, *, x_labels: Sequence[tuple[float, str]] = ()
) -> Frame:
    """Returns scales that hold all points, and axes.

    Args:
        series: At least one with a point that can be drawn.
        height: Of the drawing, in units.
        x_title: What runs along the x axis.
        y_title: Along the y axis.
        x_labels: Places on the x axis with their texts; round numbers by default.
    """
    points = [point for each in series for point in each.finite]
    low, high = padded((x for x, _ in points), 0.04)
    x = Scale(low, high, _LEFT, _WIDTH - _RIGHT)
    y = Scale(*padded(y for _, y in points), height - _BOTTOM, _TOP)
    labels = x_labels or [(value, f"{value:g}") for value in ticks(low, high) if low <= value]
    grid = [_rule(y(value), f"{value:g}") for value in ticks(y.low, y.high)]
    under = [
        element("text", text, x=_short(x(value)), y=height - _BOTTOM + 24, class_="tick mid") for value, text in labels
    ]
    titles = (
        element("text", x_title, x=(_LEFT + _WIDTH - _RIGHT) // 2, y=height - 6, class_="axis mid"),
        element("text", y_title, x=6, y=18, class_="axis"),
    )
    return Frame(x, y, join([*grid, *under, *titles]))


def _rule(y: float, text: str) -> Markup:
    line = element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=_short(y), y2=_short(y), class_="grid")
    return join([line, element("text", text, x=_LEFT - 8, y=_short(y + 5), class_="tick end")])


def marks(series: Series, frame: Frame) -> Markup:
    """Returns all points as one path, a short line each, whose caps the style makes dots or squares.

    In PDF a line of no length has no square caps: they would be missing on paper.
    """
    path = "".join(f"M{_short(frame.x(x))} {_short(frame.y(y))}h.1" for x, y in series.finite)
    return Markup(element("path", d=path, class_=f"marks {series.kind}") if path else "")


def polyline(series: Series, frame: Frame) -> Markup:
    """Returns a line through all points."""
    points = " ".join(f"{_short(frame.x(x))},{_short(frame.y(y))}" for x, y in series.finite)
    return element("polyline", points=points, class_=f"line {series.kind}")


def stacked_bar(parts: Sequence[tuple[str, float, str]], total: float, y: int, height: int) -> Markup:
    """Returns rectangles side by side.

    Args:
        parts: Text that is shown to who points at it, size, and class of the style, of each.
        total: Size of the whole width.
        y: Upper edge.
        height: Of the bar.
    """
    start, found = 0.0, []
    for text, value, kind in parts:
        width = value / total * _WIDTH
        title = element("title", text)
        shape = {"x": _short(start), "y": y, "width": _short(max(width - 1.5, 0.5)), "height": height}
        found.append(element("rect", title, class_=kind, **shape))
        start += width
    return join(found)


def _short(value: float) -> str:
    """Returns a place with one digit behind the point, if it has one."""
    return f"{value:.1f}".removesuffix(".0")
