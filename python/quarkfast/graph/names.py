"""Fresh names for what is added to a model, kept clear of those that are there already."""

from __future__ import annotations

from collections.abc import Iterable

from quarkfast.deferred import ir
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["Names"]


class Names:
    """Hands out names that no value or node of a model has yet.

    Example:
        >>> names = Names(["x", "x_scale"])
        >>> names.fresh("x_scale"), names.fresh("x_scale"), names.fresh("y")
        ('x_scale_1', 'x_scale_2', 'y')
    """

    def __init__(self, taken: Iterable[str]) -> None:
        """Starts from the names in `taken`."""
        self._taken = set(taken)

    @classmethod
    def of(cls, model: ir.Model) -> Names:
        """Starts from every name in `model`, those of its bodies and functions included."""
        taken: set[str] = set()
        for graph in graphs_of(model):
            taken.update(value.name for value in (*graph.inputs, *graph.initializers.values()) if value.name)
            for node in graph:
                taken.update(value.name for value in node.outputs if value.name)
                if node.name:
                    taken.add(node.name)
        return cls(taken)

    def fresh(self, wanted: str) -> str:
        """Returns `wanted`, or `wanted` with the first free ``_1``, ``_2``, ... behind it, and takes it."""
        name, count = wanted, 0
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name
