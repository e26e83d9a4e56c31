"""A model as a protobuf small enough for onnx's converter and shape inference, whatever its weights take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, shape_of
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["Aside", "bring_back", "large_tensors_aside"]

# Bytes from which on onnx sees only that a constant exists; what it looks at are scales and shapes.
_LARGE = 4096


@dataclass(frozen=True, slots=True)
class Aside:
    """Large constants.

    Attributes:
        by_location: By the location in the reference that stands for each.
        by_place: By the number of the graph and the name.
    """

    by_location: dict[str, ir.TensorProtocol] = field(default_factory=dict)
    by_place: dict[tuple[int, str], ir.TensorProtocol] = field(default_factory=dict)


@contextmanager
def large_tensors_aside(model: ir.Model) -> Iterator[Aside]:
    """Puts references in the place of large constants, and values in the place of small ones that lie in files.

    Because a protobuf holds 2 GiB, and onnx opens no files. Yields what the references stand for; at the end `model`
    has its constants back.
    """
    given, aside = dict[ir.Value, ir.TensorProtocol](), Aside()
    for number, graph in enumerate(graphs_of(model)):
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
            location = f"aside_{len(aside.by_location)}"
            aside.by_location[location] = aside.by_place[number, value.name or ""] = tensor
            value.const_value = ir.ExternalTensor(
                location, 0, tensor.nbytes, tensor.dtype, shape=ir.Shape(shape_of(tensor)), name=value.name or ""
            )
    try:
        yield aside
    finally:
        for value, tensor in given.items():
            value.const_value = tensor


def bring_back(model: ir.Model, aside: Aside) -> None:
    """Puts large tensors in their place again, in a model that was made of one with large tensors aside.

    onnx 1.17 drops references while it converts, and leaves tensors of the same name and size without numbers.
    """
    for number, graph in enumerate(graphs_of(model)):
        for name, value in graph.initializers.items():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor):
                value.const_value = aside.by_location[str(tensor.location)]
            elif tensor is not None and tensor.nbytes >= _LARGE and (number, name) in aside.by_place:
                value.const_value = aside.by_place[number, name]
