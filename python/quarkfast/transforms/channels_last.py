"""Channels last (NHWC): images go in and come out so."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.builder import GraphBuilder
from quarkfast.graph.rewriting import splice

__all__ = ["move_channels_last"]

_IN, _OUT = (0, 3, 1, 2), (0, 2, 3, 1)


def move_channels_last(model: ir.Model) -> bool:
    """Puts a Transpose behind each input of four dimensions, and one in front of each such output, in place.

    1. Inputs keep their names; ``[N, C, H, W]`` becomes ``[N, H, W, C]``. The Transpose is called after the input, with
       ``_transpose`` behind it.
    2. Outputs get other names, with ``_transpose`` behind them, since they hold other values; an output that is an
       input is left alone.

    Types are known beforehand. Not idempotent: it turns whatever the layout is. Returns whether there was an end of
    four dimensions. Error 0.
    """
    builder, graph = GraphBuilder(model), model.graph
    outputs = [value for value in dict.fromkeys(graph.outputs) if _has_four(value) and not value.is_graph_input()]
    inputs = [value for value in graph.inputs if _has_four(value)]
    for value in outputs:
        node = _transpose(value, _OUT, builder)
        producer = value.producer()
        if producer is not None:
            graph.insert_after(producer, node)
        for index, output in enumerate(graph.outputs):
            if output is value:
                graph.outputs[index] = node.outputs[0]
    for value in inputs:
        node = _transpose(value, _IN, builder)
        node.outputs[0].shape = value.shape
        value.shape = _turned(value.shape, _OUT)
        splice(graph, value, (node,), node.outputs[0], "")
    return bool(inputs or outputs)


def _has_four(value: ir.Value) -> bool:
    return value.shape is not None and len(value.shape) == 4 and value.const_value is None


def _transpose(value: ir.Value, order: tuple[int, ...], builder: GraphBuilder) -> ir.Node:
    name = builder.fresh(f"{name_of(value)}_transpose")
    node = ir.node("Transpose", [value], {"perm": list(order)}, name=name)
    result = node.outputs[0]
    result.name, result.type, result.shape = name, value.type, _turned(value.shape, order)
    return node


def _turned(shape: ir.Shape | None, order: tuple[int, ...]) -> ir.Shape | None:
    return None if shape is None else ir.Shape([shape[axis] for axis in order])
