"""Constants of a model: checked, and copied where nodes share them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.access import is_constant, name_of, range_of, tensor_of
from quarkfast.graph.builder import GraphBuilder, add_initializer
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["check_weights", "unshare_constants"]

Checked = Mapping[int, ir.TensorProtocol]
"""Tensors without NaN, by their identity."""


def check_weights(model: ir.Model, checked: Checked = MappingProxyType({})) -> Checked:
    """Makes sure that no float32 initializer holds a NaN, and returns what was looked at.

    Args:
        model: The model; not changed.
        checked: What an earlier call returned: tensors that are not read again.

    Raises:
        ModelError: If one does; the sentence names the tensor and how many of its values are NaN.
    """
    found = dict(checked)
    for value in (each for graph in graphs_of(model) for each in graph.initializers.values()):
        tensor = value.const_value
        if tensor is None or tensor.dtype != ir.DataType.FLOAT or id(tensor) in checked:
            continue
        seen = range_of(value)
        if seen.nan:
            raise ModelError(f"tensor {value.name!r}: expected numbers, got NaN in {seen.nan} of {seen.count} values")
        found[id(tensor)] = tensor
    return found


def unshare_constants(model: ir.Model, op_types: Collection[str]) -> bool:
    """Gives each node of these types a copy of what another node reads too, in place; returns whether there was one.

    The first reader keeps the constant. Copies are called ``duplicated<name>``, as Quark calls them; those of large
    constants in a file share the file. ``"*"`` means all types. Constants of one number stay shared.

    Idempotent; graph inputs and outputs are kept; error 0.
    """
    builder, copied = GraphBuilder(model), False
    for value in tuple(model.graph.initializers.values()):
        if not is_constant(value) or value.is_graph_input() or value.is_graph_output() or tensor_of(value).size <= 1:
            continue
        owner: ir.Node | None = None
        for node, index in tuple(value.uses()):
            if (
                node.graph is not model.graph
                or not ("*" in op_types or node.op_type in op_types)
                or owner in (None, node)
            ):
                owner = owner or node
                continue
            name = builder.fresh(f"duplicated{name_of(value)}")
            node.replace_input_with(index, _copy(model.graph, value, name))
            copied = True
    return copied


def _copy(graph: ir.Graph, value: ir.Value, name: str) -> ir.Value:
    """Adds the constant of `value` under another name."""
    tensor = tensor_of(value)
    if isinstance(tensor, ir.ExternalTensor):
        other: ir.TensorProtocol = ir.ExternalTensor(
            tensor.location, tensor.offset, tensor.length, tensor.dtype,
            shape=ir.Shape(tensor.shape), name=name, base_dir=tensor.base_dir,
        )  # fmt: skip
    else:
        other = ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=name)
    return add_initializer(graph, other)
