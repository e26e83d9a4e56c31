"""A model as a protobuf small enough for onnx's converter and shape inference, whatever its weights take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, shape_of
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["bring_back", "large_tensors_aside"]

# Bytes from which on onnx sees only that a constant exists; what it looks at are scales and shapes.
_LARGE = 4096


@contextmanager
def large_tensors_aside(model: ir.Model) -> Iterator[Mapping[str, ir.TensorProtocol]]:
    """Puts references in the place of large constants, and values in the place of small ones that lie in files.

    Because a protobuf holds 2 GiB, and onnx opens no files. Yields what the references stand for, by location; at the
    end `model` has its constants back.
    """
    given, aside = dict[ir.Value, ir.TensorProtocol](), dict[str, ir.TensorProtocol]()
    for graph in graphs_of(model):
        for value in graph.initializers.values():
            tensor = value.const_value
            if tensor is None or tensor.dtype == ir.DataType.STRING:
                continue
            if tensor.nbytes < _LARGE:
                if isinstance(tensor, ir.ExternalTensor):
                    given[value] = tensor
                    value.const_value = ir.Tensor(np.array(array_of(value)), dtype=tensor.dtype, name=value.name)
                continue
            given[value] = tensor
            location = f"aside_{len(aside)}"
            aside[location] = tensor
            value.const_value = ir.ExternalTensor(
                location, 0, tensor.nbytes, tensor.dtype, shape=ir.Shape(shape_of(tensor)), name=value.name or ""
            )
    try:
        yield aside
    finally:
        for value, tensor in given.items():
            value.const_value = tensor


def bring_back(model: ir.Model, aside: Mapping[str, ir.TensorProtocol]) -> None:
    """Puts what the references stand for in their place, in a model that was made of one with large tensors aside."""
    for graph in graphs_of(model):
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                value.const_value = aside[str(value.const_value.location)]
