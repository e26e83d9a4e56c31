"""What a model carries from step to step: the names of the user's file, notes for the summary, equalized tensors."""

from __future__ import annotations

from collections.abc import Iterable

from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.subgraphs import graphs_of, nodes_of

__all__ = [
    "add_equalized",
    "add_note",
    "carry_over",
    "drop_note",
    "equalized_of",
    "inherit_names",
    "names_in_file",
    "names_of",
    "notes_of",
    "op_types_in_file",
    "original_name",
    "remember",
    "settle_calls",
    "tensors_in_file",
]

_NOTES = "quarkfast.notes"


def add_note(model: ir.Model, note: str) -> None:
    """Has the summary of `model` say `note`, a sentence, once."""
    if note not in notes_of(model):
        model.meta[_NOTES] = (*notes_of(model), note)


def drop_note(model: ir.Model, note: str) -> None:
    """Takes back a sentence that a later step has made untrue."""
    model.meta[_NOTES] = tuple(each for each in notes_of(model) if each != note)


def notes_of(model: ir.Model) -> tuple[str, ...]:
    """Returns what there is to say about `model`, in the order in which it happened."""
    notes: tuple[str, ...] = model.meta.get(_NOTES, ())
    return notes


_EQUALIZED = "quarkfast.equalized_tensors"


def add_equalized(model: ir.Model, names: Iterable[str]) -> None:
    """Adds names of tensors."""
    model.meta[_EQUALIZED] = tuple(dict.fromkeys((*equalized_of(model), *names)))


def equalized_of(model: ir.Model) -> tuple[str, ...]:
    """Returns the names, in the order in which they came."""
    names: tuple[str, ...] = model.meta.get(_EQUALIZED, ())
    return names


_CALL = "quarkfast.call:"
_NODE, _NAMES, _TENSORS, _TYPES = (f"quarkfast.{key}" for key in ("name", "names", "tensors", "op_types"))


def remember(model: ir.Model) -> None:
    """Notes the names of all nodes and tensors of `model`, those of its bodies and functions included."""
    nodes = [*nodes_of(model.graph), *(node for each in model.functions.values() for node in nodes_of(each.graph))]
    for node in nodes:
        node.meta[_NODE] = name_of(node)
        if node.op_identifier() in model.functions and node.name:
            # What is inlined from a call inherits its properties, and nothing else that tells where it came from.
            node.metadata_props[_CALL + node.name] = ""
    inputs = {name_of(value) for graph in graphs_of(model) for value in (*graph.inputs, *graph.initializers.values())}
    model.meta[_NAMES] = frozenset(name_of(node) for node in nodes) - {""}
    model.meta[_TENSORS] = frozenset({name_of(value) for node in nodes for value in node.outputs} | inputs) - {""}
    model.meta[_TYPES] = frozenset(node.op_type for node in nodes)


def settle_calls(model: ir.Model) -> None:
    """Moves what nodes inherited from inlined calls to where no file will show it."""
    for node in nodes_of(model.graph):
        keys = [key for key in node.metadata_props if key.startswith(_CALL)]
        node.meta[_CALL] = frozenset(key.removeprefix(_CALL) for key in keys)
        for key in keys:
            del node.metadata_props[key]


def carry_over(model: ir.Model, converted: ir.Model) -> None:
    """Takes what is remembered of `model` over to what a conversion of it made, by the names of its nodes."""
    if converted is model:
        return
    converted.meta.update(model.meta)
    known = {name_of(node): node.meta for node in nodes_of(model.graph)}
    for node in nodes_of(converted.graph):
        node.meta.update(known.get(name_of(node), {}))


def inherit_names(node: ir.Node, source: ir.Node) -> None:
    """Has `node`, a part of what `source` was, answer to the names of `source`."""
    node.meta[_NODE] = original_name(source)
    node.meta[_CALL] = source.meta.get(_CALL, frozenset())


def names_of(node: ir.Node) -> frozenset[str]:
    """Returns the names that `node` answers to: its own, that in the file, those of calls it was inlined from."""
    calls: frozenset[str] = node.meta.get(_CALL, frozenset())
    return calls | {name_of(node), original_name(node)}


def original_name(node: ir.Node) -> str:
    """Returns the name of `node` in the file, or the one it has where preparation made it."""
    name: str = node.meta.get(_NODE, "") or name_of(node)
    return name


def names_in_file(model: ir.Model) -> frozenset[str]:
    """Returns the names of the nodes in the file; none if `remember` did not see the model."""
    names: frozenset[str] = model.meta.get(_NAMES, frozenset())
    return names


def tensors_in_file(model: ir.Model) -> frozenset[str]:
    """Returns the names of the tensors in the file; none if `remember` did not see the model."""
    names: frozenset[str] = model.meta.get(_TENSORS, frozenset())
    return names


def op_types_in_file(model: ir.Model) -> frozenset[str]:
    """Returns the operator types in the file; none if `remember` did not see the model."""
    types: frozenset[str] = model.meta.get(_TYPES, frozenset())
    return types
