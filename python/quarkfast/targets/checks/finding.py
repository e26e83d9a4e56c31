"""What a check of a quantized model finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, TypeAlias

from quarkfast.deferred import ir

__all__ = ["Audit", "Finding", "Takes"]


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
