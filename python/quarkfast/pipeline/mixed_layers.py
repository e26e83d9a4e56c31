"""Layers with other types than the rest of a model: as rules of a scheme, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quarkfast.config import LayerRule, Scheme
from quarkfast.quantization.layer_candidates import LayerCandidate, rules_of
from quarkfast.wording import first_names

__all__ = ["Chosen", "described", "types_of", "with_layers"]

Chosen = Sequence[tuple[LayerCandidate, LayerRule]]
"""Layers, and what each gets."""


def with_layers(base: Scheme, chosen: Chosen) -> Scheme:
    """Returns `base` with other types for layers; its own rules win over them."""
    return replace(base, layers=(*rules_of(chosen), *base.layers))


def described(chosen: Chosen, candidates: Sequence[LayerCandidate]) -> str:
    """Returns which layers get what, in words."""
    if not chosen:
        return f"none of {len(candidates)} layers has other types than the preset"
    names = first_names(each.name for each, _ in chosen)
    total = max(sum(each.bytes for each in candidates), 1)
    share = 100 * sum(each.bytes for each, _ in chosen) / total
    types = " and ".join(dict.fromkeys(types_of(form) for _, form in chosen))
    return f"{types} for {len(chosen)} of {len(candidates)} layers ({names}; {share:.0f} % of their weights' bytes)"


def types_of(form: LayerRule) -> str:
    """Returns the types of a form, in words."""
    found = {
        part: dict(change.values).get("dtype", "other settings")
        for part, change in (("activations", form.activation), ("weights", form.weight))
        if change is not None
    }
    types = set(found.values())
    return (
        types.pop()
        if len(types) == 1 and len(found) == 2
        else ", ".join(f"{each} {part}" for part, each in found.items())
    )
