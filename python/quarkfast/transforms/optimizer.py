"""The optimizer of onnxscript, loaded only where it would find something to do."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard
from quarkfast.graph.notes import add_note
from quarkfast.graph.opset import opset_version
from quarkfast.graph.subgraphs import graphs_of, nodes_of

__all__ = ["may_simplify", "optimize", "type_casts"]


def type_casts(model: ir.Model) -> None:
    """Gives what each Cast returns the type that it names, as the optimizer does whether it finds more to do or not."""
    for node in nodes_of(model.graph):
        if node.op_type == "Cast" and is_standard(node):
            node.outputs[0].type = ir.TensorType(ir.DataType(node.attributes.get_int("to", 0)))


def may_simplify(node: ir.Node) -> bool:
    """Whether the optimizer may change `node`, or know more of other nodes by what it notes of this one.

    1. What reads constants alone may be computed.
    2. Else the rows of `_SIMPLIFIED` say. An operator that has none stays as it is unless another node is changed: Abs,
       Add, Gather and If are simplified by constants, or by what is known of a Shape.
    3. Where no node of a model is simplified, running the optimizer leaves the model as it is.
    """
    if all(value is None or is_constant(value) for value in node.inputs):
        return True
    simplified = _SIMPLIFIED.get(node.op_type)
    return simplified is not None and simplified(node)


def _always(node: ir.Node) -> bool:
    return True


def _has_known_sizes(node: ir.Node) -> bool:
    """Whether all sizes that a Shape or Size tells of are numbers, or what reads them may know what to do with some."""
    value = node.inputs[0]
    if value is None or value.shape is None:
        return False
    sizes = value.shape[node.attributes.get_int("start", 0) : node.attributes.get_int("end", None)]
    readers = (reader for reader, _ in node.outputs[0].uses())
    return all(isinstance(size, int) for size in sizes) or any(each.op_type not in _BLIND for each in readers)


def _input_is_constant(node: ir.Node) -> bool:
    return is_constant(node.inputs[0])


def _keeps_shape(node: ir.Node) -> bool:
    """Whether a Reshape or Expand gives what it takes, or a constant for others to compute with."""
    value, target = node.inputs[0], node.inputs[1] if len(node.inputs) == 2 else None
    if value is None or target is None or is_constant(value):
        return True
    if value.shape is None or not is_constant(target):
        return False
    return value.shape.dims == tuple(array_of(target).reshape(-1).tolist())


def _keeps_type(node: ir.Node) -> bool:
    value = node.inputs[0]
    return value is not None and value.dtype == node.attributes.get_int("to", 0)


def _drops_an_input(node: ir.Node) -> bool:
    axis = node.attributes.get_int("axis", 0)
    shapes = [value.shape for value in node.inputs if value is not None and value.shape is not None]
    return len(node.inputs) == 1 or any(-len(shape) <= axis < len(shape) and shape[axis] == 0 for shape in shapes)


# Operators that are the same whatever is noted of the sizes that they read, and note nothing of what they give.
_BLIND = frozenset({"Cast", "Slice"})

_SIMPLIFIED: Mapping[str, Callable[[ir.Node], bool]] = {
    "Cast": _keeps_type,
    "CastLike": _always,
    "Concat": _drops_an_input,
    "ConcatFromSequence": _always,
    "Dropout": _always,
    "Expand": _keeps_shape,
    "Identity": _always,
    "Reshape": _keeps_shape,
    "SequenceAt": _always,
    "SequenceConstruct": _always,
    "Shape": _has_known_sizes,
    "Size": _has_known_sizes,
    "SplitToSequence": _always,
    "Squeeze": _input_is_constant,
}


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
    # Has nodes that are not in `model` read nothing of it: those begun, and those of branches that are gone.
    graphs = graphs_of(model)
    own = {node for graph in graphs for node in graph}
    for graph in graphs:
        values = (*graph.inputs, *graph.initializers.values(), *(each for node in graph for each in node.outputs))
        for value in values:
            for node, index in tuple(value.uses()):
                if node not in own:
                    node.replace_input_with(index, None)


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
