"""How findings name nodes and shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.contrib import key_of

__all__ = ["describe_nodes", "dimensions"]

_NAMED = 3


def dimensions(value: ir.Value) -> list[int | str]:
    """Returns the dimensions of `value`: numbers, names, ``?`` for what has neither; none where the rank is unknown."""
    if value.shape is None:
        return []
    return [size if isinstance(size, int) else size.value or "?" for size in value.shape]


def describe_nodes(nodes: Sequence[ir.Node]) -> str:
    """Returns the operators of `nodes` with their counts, and the names of the first of them.

    Example:
        >>> import onnx_ir as ir
        >>> describe_nodes([ir.node("Exp", [], name="a"), ir.node("Det", [], name="b"), ir.node("Exp", [], name="c")])
        "2 Exp, 1 Det ('a', 'b', 'c')"
    """
    names = ", ".join(repr(name_of(node)) for node in nodes[:_NAMED])
    return f"{_listing(nodes)} ({names}{', ...' if len(nodes) > _NAMED else ''})"


def _listing(nodes: Sequence[ir.Node]) -> str:
    """Returns how many nodes there are of each operator, the most first."""
    counts = sorted(Counter(map(key_of, nodes)).items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {name}" for name, count in counts)
