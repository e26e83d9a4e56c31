"""The page about a checkpoint: its sizes, and each layer that was read back beside its float weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarkfast.report.figures import bar
from quarkfast.report.markup import Markup, decibels, element, table
from quarkfast.report.page import framed

__all__ = ["render_checkpoint"]

# Ratio in dB at which the bar of a layer is full: that of 8 bits.
_FULL = 50.0


def render_checkpoint(found: Mapping[str, Any], facts: Sequence[tuple[str, str]], version: str) -> str:
    """Returns a page that needs nothing else, as :func:`render_page` does.

    Args:
        found: `quarkfast.checkpoint.QuantizedCheckpoint.to_dict`.
        facts: Its rows.
        version: Version of quarkfast.

    Example:
        >>> found = {"output": "a<b", "preset": "int8", "verification": None}
        >>> "a&lt;b in int8" in render_checkpoint(found, [("layers", "7")], "1.0")
        True
    """
    name = str(found["output"]).replace("\\", "/").rpartition("/")[2]
    notes = [text for title, text in facts if title == "note"]
    kept = [row for row in facts if row[0] != "note"]
    sections = [("summary", "Summary", table("What was done", ("what", "result"), kept))]
    if notes:
        items = (element("li", text) for text in notes)
        sections.append(("notes", "Notes", element("div", element("ul", *items), class_="notes")))
    verification = found["verification"]
    if verification is not None:
        sections.append(("layers", "Layers", _layers(verification["layers"])))
    subtitle = f"Weights as {found['preset']}, read back from the disk and compared with the float ones."
    return framed(f"{name} in {found['preset']}", subtitle, Markup(""), sections, Markup("{}"), version)


def _layers(layers: Sequence[Mapping[str, Any]]) -> Markup:
    """Returns a table of layers, worst first."""
    rows = [
        (element("code", each["name"]), decibels(each["sqnr"]), bar(min(max(each["sqnr"], 0.0) / _FULL, 1.0)))
        for each in sorted(layers, key=lambda each: float(each["sqnr"]))
    ]
    caption = f"Signal to noise of weights in dB, worst first; the bar ends at {_FULL:.0f}"
    return table(caption, ("layer", "dB", "bar"), rows, numbers=(1,))
