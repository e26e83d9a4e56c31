"""Counts and lists of names, as sentences to users have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

__all__ = ["counted", "counts_by_type", "first_names"]


def counted(count: int, noun: str) -> str:
    """Returns a number with the noun that it counts, which takes an s for more than one.

    Example:
        >>> counted(1, "layer"), counted(2, "sample held apart"), counted(1200, "layer")
        ('1 layer', '2 samples held apart', '1200 layers')
    """
    first, *others = noun.split(" ")
    return " ".join([str(count), first if count == 1 else f"{first}s", *others])


def counts_by_type(counts: Mapping[str, int]) -> str:
    """Returns how many nodes there are of each operator type, by name.

    Example:
        >>> counts_by_type({"MatMul": 2, "Conv": 40}), counts_by_type({})
        ('40 Conv, 2 MatMul', 'nothing')
    """
    return ", ".join(f"{count} {op_type}" for op_type, count in sorted(counts.items())) or "nothing"


def first_names(names: Iterable[str], most: int = 3) -> str:
    """Returns the first of some names, quoted, and dots where there are more.

    Example:
        >>> first_names(["conv_0", "conv_1"]), first_names("abcd")
        ("'conv_0', 'conv_1'", "'a', 'b', 'c', ...")
    """
    shown = list(islice(names, most + 1))
    return ", ".join([*map(repr, shown[:most]), *(["..."] if len(shown) > most else [])])
