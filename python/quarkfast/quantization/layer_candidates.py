"""Candidates of mixed precision: layers that may get other types than the rest of a model."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from quarkfast.config import LayerRule, match_names
from quarkfast.config.mixed_precision import MixedPrecision
from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, name_of
from quarkfast.graph.notes import names_of

__all__ = ["LayerCandidate", "find_candidates", "rules_of"]


@dataclass(frozen=True, slots=True)
class LayerCandidate:
    """A layer, and what it may get.

    Attributes:
        name: Of its node.
        bytes: Of its constants, as they are in the float model.
        operations: Multiplications for one sample, where axes of unknown length count once; None if shapes are unknown.
        forms: What it may get instead of the preset's types.
    """

    name: str
    bytes: int
    operations: int | None
    forms: tuple[LayerRule, ...]


def find_candidates(
    model: ir.Model, quantized: Collection[str], settings: MixedPrecision
) -> tuple[LayerCandidate, ...]:
    """Returns the layers that `settings` select, in the order of the nodes.

    Args:
        model: Prepared.
        quantized: Names of the nodes that are quantized.
        settings: What is asked for.

    Raises:
        ConfigError: If a name or a pattern is of no node.
    """
    nodes = list(model.graph)
    known = {name for node in nodes for name in names_of(node)}
    included = match_names(settings.include, known, "mixed_precision: include") if settings.include else known
    excluded = match_names(settings.exclude, known, "mixed_precision: exclude")
    forms = [(form, match_names(form.nodes, known, "mixed_precision: forms: nodes")) for form in settings.forms]
    found = list[LayerCandidate]()
    for node in nodes:
        names = names_of(node)
        if node.op_type not in settings.op_types or name_of(node) not in quantized:
            continue
        if not names & included or names & excluded or (settings.own_inputs and _shares_input(node)):
            continue
        if own := _forms(node, forms):
            found.append(LayerCandidate(name_of(node), _bytes(node), _operations(node), own))
    return tuple(found)


def rules_of(chosen: Sequence[tuple[LayerCandidate, LayerRule]]) -> tuple[LayerRule, ...]:
    """Returns one rule for each form, which names the layers that get it."""
    names: dict[LayerRule, list[str]] = {}
    for candidate, form in chosen:
        names.setdefault(form, []).append(candidate.name)
    return tuple(replace(form, nodes=tuple(each)) for form, each in names.items())


def _forms(node: ir.Node, forms: Sequence[tuple[LayerRule, frozenset[str]]]) -> tuple[LayerRule, ...]:
    """Returns the forms that select `node`, or those for all others where none does."""
    own = [form for form, names in forms if names & names_of(node) or node.op_type in form.op_types]
    others = [form for form, _ in forms if not form.nodes and not form.op_types]
    return tuple(replace(form, nodes=(), op_types=()) for form in own or others)


def _shares_input(node: ir.Node) -> bool:
    value = node.inputs[0] if node.inputs else None
    return value is not None and len(tuple(value.uses())) > 1


def _bytes(node: ir.Node) -> int:
    constants = [value.const_value for value in node.inputs if value is not None and is_constant(value)]
    return sum(tensor.nbytes for tensor in constants if tensor is not None)


def _operations(node: ir.Node) -> int | None:
    """Returns how many multiplications a layer takes: for each number that it computes those of one sum."""
    data, weight = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    counted = data if node.op_type == "ConvTranspose" else node.outputs[0]
    if data is None or weight is None or weight.shape is None or counted is None or counted.shape is None:
        return None
    lengths = [length if isinstance(length, int) else 1 for length in weight.shape]
    numbers = math.prod(length if isinstance(length, int) else 1 for length in counted.shape)
    if node.op_type in (
        "Conv",
        "ConvTranspose",
    ):  # [outputs, inputs of a group, ...] or [inputs, outputs of a group, ...]
        return numbers * math.prod(lengths[1:])
    transposed = node.op_type == "Gemm" and bool(node.attributes.get_int("transB", 0))
    return numbers * (lengths[-1] if transposed or len(lengths) == 1 else lengths[-2])
