"""Findings: what a check of a quantized model yields, and how it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, TypeAlias

from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.schemas import key_of

__all__ = ["Audit", "Finding", "Takes", "describe_nodes", "dimensions"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where a model breaks a rule of its device.

    Attributes:
        rule: Name of the rule.
        severity: ``"error"`` where the device computes otherwise or refuses the model, ``"warning"`` where a part may
            run elsewhere, or a compiler has failed.
        node: The node where it is; empty for the model as a whole.
        text: What is expected and what is there.
    """

    rule: str
    severity: Literal["error", "warning"]
    node: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON."""
        return asdict(self)


class Takes(Protocol):
    """What an audit reads of a target."""

    @property
    def activation_types(self) -> tuple[str, ...]:
        """The types that activations may have; empty means all."""

    @property
    def weight_types(self) -> tuple[str, ...]:
        """The same for weights."""

    @property
    def bias(self) -> str | None:
        """What becomes of biases; None decides by the types of both operands."""


Audit: TypeAlias = "Callable[[ir.Model, Takes], Iterable[Finding]]"
"""Yields what breaks a rule in a model that is quantized already for a target."""


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
