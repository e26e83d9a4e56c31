"""How wide the columns of a table are where the terminal is narrower than the table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

__all__ = ["column_widths"]

# Of names less is hard to read, however many lines they take.
_NAME = 16


def column_widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], lists: Collection[int], room: int
) -> list[int] | None:
    """Returns the width of each column, so that no figure is cut; None where figures take more than there is.

    Args:
        columns: Headings, which may wrap between words.
        rows: Cells. The first column holds names, which wrap anywhere.
        lists: Columns of texts that wrap behind a comma.
        room: Characters for all columns together.

    Example:
        >>> column_widths(["tensor", "all errors"], [["a" * 30, "19.8 dB"]], [], room=30)
        [23, 7]
        >>> column_widths(["tensor", "all errors"], [["a" * 30, "19.8 dB"]], [], room=20)
    """
    texts = [[row[index] for row in rows] for index in range(len(columns))]
    widest = [max(map(len, (name, *cells))) for name, cells in zip(columns, texts, strict=True)]
    widths = []
    for index, (name, cells) in enumerate(zip(columns, texts, strict=True)):
        parts = [part for cell in cells for part in cell.replace(", ", ",\n").split("\n")] if index in lists else cells
        least = max(map(len, (*name.split(), *parts)))
        widths.append(min(widest[index], _NAME) if index == 0 else least)
    spare = room - sum(widths)
    if spare < 0:
        return None
    for index in range(len(columns)):
        grown = min(spare, widest[index] - widths[index])
        widths[index] += grown
        spare -= grown
    return widths
