"""Scale conflicts: Concats of tensors whose ranges differ, so that one scale would round the smaller ones to zero."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from quarkfast.config import Policy
from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, is_standard, name_of, range_of
from quarkfast.graph.operators import HEAD_FUNCTIONS
from quarkfast.graph.placement import LeftFloat, Placement
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.kernels import Range

__all__ = ["resolve_conflicts"]


def resolve_conflicts(
    model: ir.Model, placement: Placement, ranges: Mapping[str, Range], policy: Policy
) -> tuple[Placement, tuple[str, ...]]:
    """Returns a placement without scales that inputs of a Concat cannot share, and a sentence for each change.

    The head of a model is what lies in front of its outputs and does nothing but join and move values: Concat,
    Reshape, Transpose and the like, whose results nothing else reads that is quantized, and behind all that is joined
    functions such as Sigmoid. A detector joins boxes and scores there, and then the levels of its pyramid.

    1. Where the largest magnitudes of what enters such a head differ by more than a factor of 8 (boxes in pixels and
       scores up to 1), all of it stays float. What enters keeps its pairs, and with them its scales; what a float node
       gives it, and gives no quantized one, has none.
    2. Where those of the inputs of any other Concat do, its result keeps its scale, because a quantized operator reads
       it, and the sentence says what that costs.

    Only results of at most 8 bits are looked at.

    Args:
        model: The prepared model.
        placement: Where pairs go.
        ranges: What is kept of each activation's values.
        policy: Says which ranges may share a scale.
    """
    notes: list[str] = []
    for head in _heads(model, placement):
        found = _ratio([value for node in head for value in _data_of(node)], head, placement, ranges)
        if found <= policy.join_ratio:
            continue
        names = ", ".join(repr(name_of(node)) for node in head if node.op_type == "Concat")
        one, reason = ", " not in names, f"a factor of {found:.3g}"
        placement = _without(placement, head, f"ranges of its inputs differ by {reason}")
        notes.append(
            f"node{'' if one else 's'} {names}: ranges of {'its' if one else 'their'} inputs differ by {reason}; they "
            "keep separate scales and the result is float"
        )
    for node in model.graph:
        found = _ratio(node.inputs, (), placement, ranges) if _is_joined(node, placement) else 0.0
        reader = _reader(model, placement, name_of(node.outputs[0])) if found > policy.join_ratio else ""
        if reader:
            notes.append(
                f"node {name_of(node)!r}: ranges of its inputs differ by a factor of {found:.3g}, and {reader!r} reads "
                "them with one scale; give the result 16 bits (tensors), or exclude both"
            )
    return placement, tuple(notes)


def _heads(model: ir.Model, placement: Placement) -> list[tuple[ir.Node, ...]]:
    """Returns the heads of a model, each in the order of the graph, with a Concat in it at least."""
    members: dict[ir.Node, list[ir.Node]] = {}
    for node in reversed(model.graph):
        readers = {reader for value in node.outputs for reader, _ in value.uses()}
        ends = [reader for reader in readers if reader not in members]
        needed = any(name_of(reader) in placement.quantized for reader in ends)
        behind = (each for reader in readers if reader in members for each in members[reader])
        last = _is_function(node) and not any(each.op_type == "Concat" for each in behind)
        if needed or not (last or _is_joined(node, placement) or _is_moved(node, placement)):
            continue
        merged = [node]
        for head in {id(members[reader]): members[reader] for reader in readers if reader in members}.values():
            merged += head
        for each in merged:
            members[each] = merged
    found = {id(head): frozenset(head) for head in members.values() if any(each.op_type == "Concat" for each in head)}
    return [tuple(node for node in model.graph if node in head) for head in found.values()]


def _data_of(node: ir.Node) -> Sequence[ir.Value | None]:
    """Returns what a node of a head joins or moves, without the shapes and indices beside it."""
    return node.inputs if node.op_type == "Concat" else node.inputs[:1]


def _is_joined(node: ir.Node, placement: Placement) -> bool:
    """Whether `node` is a Concat whose result has a scale of at most 8 bits."""
    spec = placement.specs.get(name_of(node.outputs[0]))
    return is_standard(node) and node.op_type == "Concat" and spec is not None and spec.format.integer_operators


def _is_function(node: ir.Node) -> bool:
    return is_standard(node) and node.op_type in HEAD_FUNCTIONS


def _is_moved(node: ir.Node, placement: Placement) -> bool:
    """Whether the outputs of `node` have the scale of its input."""
    first = name_of(node.inputs[0]) if node.inputs else ""
    root = placement.activations.get(first)
    return root is not None and all(placement.activations.get(name_of(value)) == root for value in node.outputs)


def _ratio(
    values: Iterable[ir.Value | None], head: Collection[ir.Node], placement: Placement, ranges: Mapping[str, Range]
) -> float:
    """Returns the ratio of the largest magnitudes of those of `values` that no node of `head` computes."""
    entering = [value for value in values if value is not None and value.producer() not in head]
    known = [found for found in (_magnitude(value, placement, ranges) for value in entering) if found]
    return max(known) / min(known) if known else 0.0


def _magnitude(value: ir.Value | None, placement: Placement, ranges: Mapping[str, Range]) -> float:
    """Returns the largest magnitude of a tensor; 0 if it is unknown or empty."""
    root = placement.activations.get(name_of(value), name_of(value))
    if root in placement.fixed:
        return max(map(abs, placement.fixed[root]))
    found = range_of(value) if is_constant(value) else ranges.get(root)
    return 0.0 if found is None or found.min > found.max else float(max(abs(found.min), abs(found.max)))


def _reader(model: ir.Model, placement: Placement, result: str) -> str:
    """Returns the name of a quantized node that reads `result` or what moves it, and is none that moves it."""
    moved = {tensor for tensor, root in placement.activations.items() if root == result}
    for node in nodes_of(model.graph):
        reads = any(name_of(value) in moved for value in node.inputs)
        writes = any(name_of(value) in moved for value in node.outputs)
        if reads and not writes and name_of(node) in placement.quantized:
            return name_of(node)
    return ""


def _without(placement: Placement, head: Collection[ir.Node], reason: str) -> Placement:
    names = {name_of(node) for node in head}
    quantized = {name: op_type for name, op_type in placement.quantized.items() if name not in names}
    written = {name_of(value) for node in head for value in node.outputs}
    passed = {name_of(value) for node in head for value in node.inputs if _lies_between_floats(value, quantized)}
    kept = {tensor: root for tensor, root in placement.activations.items() if tensor not in written | passed}
    roots = frozenset(kept.values())
    return replace(
        placement,
        activations=kept,
        quantized=quantized,
        left_float=(*placement.left_float, *(LeftFloat(name_of(node), node.op_type, reason) for node in head)),
        specs={root: spec for root, spec in placement.specs.items() if root in roots},
    )


def _lies_between_floats(value: ir.Value | None, quantized: Collection[str]) -> bool:
    """Whether a node gives `value` that is not quantized, and none reads it that is."""
    maker = None if value is None else value.producer()
    if value is None or maker is None:
        return False
    return not any(name_of(node) in quantized for node in (maker, *(reader for reader, _ in value.uses())))
