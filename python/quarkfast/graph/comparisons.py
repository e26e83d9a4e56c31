"""Operators that sum up how far two tensors of a graph are apart, in place of its outputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from quarkfast.deferred import ir
from quarkfast.graph.builder import GraphBuilder
from quarkfast.graph.operators import CHANNELS_SECOND
from quarkfast.graph.opset import choose_ir_version

__all__ = ["Asked", "add_comparisons"]

_DOMAIN = "quarkfast"


class Asked(NamedTuple):
    """Two tensors to compare, of which `rounding` says whether it is a tensor's own rounding or all errors up to it."""

    tensor: int
    rounding: bool
    reference: ir.Value
    value: ir.Value
    limit: float


def add_comparisons(model: ir.Model, asked: Iterable[Asked]) -> None:
    """Makes the sums of what is asked for the outputs of `model`, the first of which is the first."""
    builder = GraphBuilder(model)
    made: list[ir.Node] = []
    outputs = []
    for each in asked:
        operands = [_as_float32(value, builder, made) for value in (each.reference, each.value)]
        attributes: dict[str, Any] = {"limit": float(each.limit)}
        if not each.rounding:
            attributes["axis"] = _channel_axis(each.reference)
        node = builder.call(ir.node("Compare", operands, attributes=attributes, domain=_DOMAIN), "compare")
        node.outputs[0].type, node.outputs[0].shape = ir.TensorType(ir.DataType.DOUBLE), ir.Shape([None, None])
        outputs.append(node.outputs[0])
        made.append(node)
    # ONNX Runtime runs what the last node of a file without readers needs first, so the shallowest comparison goes
    # last, and each is made as soon as both of its tensors are there. It sorts nodes itself.
    first = next(iter(model.graph), None)
    if first is not None:
        model.graph.insert_before(first, list(reversed(made)))
    del model.graph.outputs[:]
    model.graph.outputs.extend(outputs)
    model.opset_imports.setdefault(_DOMAIN, 1)
    choose_ir_version(model)


def _as_float32(value: ir.Value, builder: GraphBuilder, made: list[ir.Node]) -> ir.Value:
    if value.dtype in (None, ir.DataType.FLOAT):
        return value
    cast = builder.call(ir.node("Cast", [value], attributes={"to": int(ir.DataType.FLOAT)}), "compared")
    made.append(cast)
    return cast.outputs[0]


def _channel_axis(value: ir.Value) -> int:
    """Returns the axis of channels: the second around convolutions and of four dimensions and more, else the last."""
    around = [node for node, _ in value.uses()] + [node for node in [value.producer()] if node is not None]
    rank = len(value.shape) if value.shape is not None else 0
    return 1 if rank > 3 or (rank != 2 and any(node.op_type in CHANNELS_SECOND for node in around)) else -1
