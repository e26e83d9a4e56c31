"""Tensors that are made while they are written, piece by piece, from one pass over their source."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast.deferred import ir

__all__ = ["Append", "Output", "Stream", "StreamedTensor"]

Append = Callable[[int, NDArray[Any]], None]
"""Adds bytes, which must not change afterwards, to the end of the output of that index."""


@dataclass(frozen=True, slots=True)
class Output:
    """One tensor that a stream makes.

    Attributes:
        name: Name of the initializer.
        dtype: Element type; 4-bit elements lie two to a byte, the first in the low bits.
        shape: Its dimensions.
    """

    name: str
    dtype: ir.DataType
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in a file."""
        return -(-math.prod(self.shape) * self.dtype.bitwidth // 8)


@dataclass(slots=True, eq=False)
class Stream:
    """Several tensors that come from one pass over one constant.

    Attributes:
        outputs: What it makes.
        run: Makes all of it, by appending each output's bytes in order.
    """

    outputs: tuple[Output, ...]
    run: Callable[[Append], None]
    _made: list[ir.TensorProtocol] = field(default_factory=list)

    def tensors(self) -> tuple[StreamedTensor, ...]:
        """Returns a tensor for each output; none is computed yet."""
        return tuple(StreamedTensor(self, index) for index in range(len(self.outputs)))

    def made(self, index: int) -> ir.TensorProtocol:
        """Returns one output in memory; the first call makes them all."""
        if not self._made:
            parts = [bytearray() for _ in self.outputs]
            self.run(lambda output, data: parts[output].extend(np.ascontiguousarray(data).view(np.uint8).data))
            self._made = [_tensor(output, bytes(part)) for output, part in zip(self.outputs, parts, strict=True)]
        return self._made[index]


class StreamedTensor(ir.LazyTensor):
    """One output of a stream as a tensor of a graph."""

    def __init__(self, stream: Stream, index: int) -> None:
        """Starts without a value; it is made when someone asks for it."""
        output = stream.outputs[index]
        shape = ir.Shape(output.shape)
        super().__init__(lambda: stream.made(index), output.dtype, shape, cache=True, name=output.name)
        self.stream = stream
        self.index = index

    def made(self) -> ir.TensorProtocol:
        """Returns the tensor in memory, under the name that it has by now."""
        tensor = self.stream.made(self.index)
        tensor.name = self.name
        return tensor


def _tensor(output: Output, data: bytes) -> ir.TensorProtocol:
    proto = onnx.TensorProto(name=output.name, data_type=int(output.dtype), dims=output.shape, raw_data=data)
    return ir.serde.deserialize_tensor(proto)
