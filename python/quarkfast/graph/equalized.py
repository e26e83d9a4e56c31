"""Which tensors have channels that equalization has multiplied, kept with a model until its metadata are written."""

from __future__ import annotations

from collections.abc import Iterable

from quarkfast.deferred import ir

__all__ = ["add_equalized", "equalized_of"]

_TENSORS = "quarkfast.equalized_tensors"


def add_equalized(model: ir.Model, names: Iterable[str]) -> None:
    """Adds names of tensors."""
    model.meta[_TENSORS] = tuple(dict.fromkeys((*equalized_of(model), *names)))


def equalized_of(model: ir.Model) -> tuple[str, ...]:
    """Returns the names, in the order in which they came."""
    names: tuple[str, ...] = model.meta.get(_TENSORS, ())
    return names
