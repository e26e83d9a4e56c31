"""Tensor groups: tensors that share one factor or offset, found by union-find, and those for which it is fixed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from quarkfast.deferred import ir

__all__ = ["TensorGroups"]


@dataclass
class TensorGroups:
    """Disjoint sets of tensors, some of which are pinned: their number is the neutral one."""

    _parents: dict[ir.Value, ir.Value] = field(default_factory=dict, kw_only=True)
    _pinned: set[ir.Value] = field(default_factory=set, kw_only=True)

    def of(self, value: ir.Value) -> ir.Value:
        """Returns the tensor that stands for the group of `value`."""
        root = value
        while self._parents.get(root, root) is not root:
            root = self._parents[root]
        while self._parents.get(value, root) is not root:
            self._parents[value], value = root, self._parents[value]
        return root

    def join(self, values: Iterable[ir.Value]) -> None:
        """Gives tensors one number."""
        roots = list(dict.fromkeys(map(self.of, values)))
        for other in roots[1:]:
            self._parents[other] = roots[0]
            if other in self._pinned:
                self._pinned.add(roots[0])

    def pin(self, values: Iterable[ir.Value | None]) -> None:
        """Keeps the number of tensors neutral."""
        self._pinned.update(self.of(value) for value in values if value is not None)

    def is_pinned(self, value: ir.Value) -> bool:
        """Whether the number of `value` is neutral."""
        return self.of(value) in self._pinned
