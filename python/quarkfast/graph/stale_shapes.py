"""Shapes that a file declares between its nodes and that are no longer the model's, as tools leave that edit it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx

from quarkfast.deferred import ir
from quarkfast.graph.aside import large_tensors_aside
from quarkfast.graph.shape_inference import inferred, may_propagate, protos_of
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["drop_stale_shapes"]


def drop_stale_shapes(model: ir.Model) -> bool:
    """Forgets the shapes that a file declares of what its nodes compute, if they are stale; returns whether they were.

    Runtimes follow the nodes and put what is declared aside where it differs; onnx believes it, and what follows from
    it, such as one channel too few for a weight, keeps a runtime from loading the result.

    1. A shape is stale that has other sizes than follow from the inputs and constants, or a size where it follows that
       this is an open one of the inputs: a batch that was opened at the ends alone.
    2. If one is, others may be where nothing shows it: all are forgotten. What is declared of the graph's inputs and
       outputs stays, and so do types.
    """
    values = [value for graph in graphs_of(model) for node in graph for value in node.outputs]
    declared = {value: value.shape for value in values if value.shape is not None and not value.is_graph_output()}
    if not declared:
        return False
    for value in declared:
        value.shape = None
    with large_tensors_aside(model):
        proto = ir.serde.serialize_model(model)
    found = inferred(proto, propagate=may_propagate(model))
    known = [] if found is None else [_shapes(graph) for graph in protos_of(found.graph)]
    sizes = (size for value in model.graph.inputs for size in value.shape or ())
    symbols = {str(size.value) for size in sizes if isinstance(size, ir.SymbolicDim) and size.value is not None}
    for graph, shapes in zip(graphs_of(model), known, strict=False):
        for value in (output for node in graph for output in node.outputs if output in declared):
            if value.name in shapes and _differs(declared[value], shapes[value.name], symbols):
                return True
    for value, shape in declared.items():
        value.shape = shape
    return False


def _shapes(graph: onnx.GraphProto) -> dict[str, list[int | str | None]]:
    """Returns name -> sizes, names of open ones, and None for those of which nothing is known."""
    return {
        info.name: [
            size.dim_value if size.HasField("dim_value") else size.dim_param or None
            for size in info.type.tensor_type.shape.dim
        ]
        for info in graph.value_info
        if info.type.tensor_type.HasField("shape")
    }


def _differs(declared: ir.Shape | None, found: Sequence[int | str | None], symbols: Collection[str]) -> bool:
    if declared is None or len(declared) != len(found):
        return declared is not None
    return any(
        isinstance(one, int) and (one != other if isinstance(other, int) else other in symbols)
        for one, other in zip(declared, found, strict=True)
    )
