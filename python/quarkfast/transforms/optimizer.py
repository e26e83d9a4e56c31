"""onnxscript's optimizer, kept from what it does wrong."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard
from quarkfast.graph.notes import add_note
from quarkfast.graph.opset import opset_version
from quarkfast.graph.subgraphs import graphs_of, nodes_of

__all__ = ["optimize"]

# The optimizer leaves nodes of domains alone that the model does not import.
_HIDDEN = "quarkfast.hidden"

# Operator -> the oldest operator set of what the optimizer writes in its place: an Unsqueeze with axes as an input, and
# a Split with the number of its outputs.
_WRITTEN_FOR = {"ConcatFromSequence": 13, "SplitToSequence": 18}


def optimize(model: ir.Model, should_fold: Callable[[ir.Node], bool | None]) -> None:
    """Folds constants and simplifies nodes, in place, as ``onnxscript.optimizer.fold_constants_ir`` does.

    1. Nodes for which it writes operators that the model's operator set does not have stay as they are; so does a
       SplitToSequence whose parts are not constant (onnxscript 0.7 fails), and what draws random numbers.
    2. Where it fails nevertheless the model stays as far as it came, which is a whole model, and a note says so.
    3. It logs nothing but errors, and warns of nothing: where warnings are errors it would fold less.
    """
    from onnxscript.optimizer import fold_constants_ir

    with _hiding(model), _quiet():
        try:
            fold_constants_ir(model, should_fold=should_fold)
        except RuntimeError as error:
            cause = " ".join(str(error).split())
            add_note(model, f"model: constants are folded in a part of it, because onnxscript failed: {cause}")
    _drop_loose_nodes(model)


@contextmanager
def _hiding(model: ir.Model) -> Iterator[None]:
    version = opset_version(model)
    hidden = [(node, node.domain) for node in nodes_of(model.graph) if is_standard(node) and _misleads(node, version)]
    for node, _ in hidden:
        node.domain = _HIDDEN
    try:
        yield
    finally:
        for node, domain in hidden:
            node.domain = domain


def _misleads(node: ir.Node, version: int) -> bool:
    """Whether the optimizer would make something else of `node`, or fail."""
    if version < _WRITTEN_FOR.get(node.op_type, 0) or node.op_type == "Bernoulli":
        return True
    if node.op_type == "SplitToSequence":
        return len(node.inputs) > 1 and node.inputs[1] is not None and not is_constant(node.inputs[1])
    if node.op_type == "Dropout" and len(node.inputs) > 2 and node.inputs[2] is not None:
        return not is_constant(node.inputs[2]) or bool(array_of(node.inputs[2]).any())
    return False


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps log and warnings free of what the optimizer cannot fold, which stays as it is."""
    logger = logging.getLogger("onnxscript")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _drop_loose_nodes(model: ir.Model) -> None:
    """Has nodes that are not in `model` read nothing of it: those begun, and those of branches that are gone."""
    graphs = graphs_of(model)
    own = {node for graph in graphs for node in graph}
    for graph in graphs:
        values = (*graph.inputs, *graph.initializers.values(), *(each for node in graph for each in node.outputs))
        for value in values:
            for node, index in tuple(value.uses()):
                if node not in own:
                    node.replace_input_with(index, None)
