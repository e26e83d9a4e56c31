"""Constants in pieces: read from where they lie, or made while they are written, from one pass over their source."""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast.deferred import ir

__all__ = [
    "PIECE_BYTES",
    "Append",
    "Output",
    "Stream",
    "StreamedTensor",
    "byte_pieces",
    "element_pieces",
    "mapped_array",
    "row_pieces",
]

PIECE_BYTES = 16 << 20
"""About how much is mapped at a time: two pieces take less than what the interpreter itself needs."""

# Linux begins to read no more at a request than the disk's read-ahead, which is this much by default.
_ASKED = 128 << 10


def element_pieces(tensor: ir.TensorProtocol, spans: Iterable[tuple[int, int]]) -> Iterator[NDArray[Any]]:
    """Yields ranges of the elements of `tensor`, flat, in the order of `spans`.

    What lies in a file is mapped span by span and unmapped when the array is dropped; the next span is asked for while
    the caller works on this one.

    Args:
        tensor: A tensor whose elements take whole bytes.
        spans: First element, and the one behind the last.

    Example:
        >>> import numpy as np, onnx_ir as ir
        >>> [piece.tolist() for piece in element_pieces(ir.tensor(np.arange(5)), [(0, 3), (3, 5)])]
        [[0, 1, 2], [3, 4]]
    """
    if not isinstance(tensor, ir.ExternalTensor):
        array = np.asarray(tensor.numpy()).reshape(-1)
        yield from (array[start:stop] for start, stop in spans)
        return
    dtype = tensor.dtype.numpy()
    ranges = ((start * dtype.itemsize, stop * dtype.itemsize) for start, stop in spans)
    yield from (piece.view(dtype) for piece in _mapped(tensor, ranges))


def row_pieces(tensor: ir.TensorProtocol) -> Iterator[NDArray[Any]]:
    """Yields `tensor` in ranges of its first axis, of about :data:`PIECE_BYTES` each; a smaller one whole.

    What lies in a file is mapped piece by piece and unmapped when the array is dropped.

    Example:
        >>> import numpy as np, onnx_ir as ir
        >>> [piece.shape for piece in row_pieces(ir.tensor(np.zeros((3, 2))))]
        [(3, 2)]
    """
    if tensor.nbytes <= PIECE_BYTES or not _is_plain(tensor):
        yield mapped_array(tensor) if isinstance(tensor, ir.ExternalTensor) else np.asarray(tensor.numpy())
        return
    shape = tuple(tensor.shape.numpy())
    inner = math.prod(shape[1:])
    rows = max(1, PIECE_BYTES // (inner * tensor.dtype.numpy().itemsize))
    spans = ((start * inner, min(start + rows, shape[0]) * inner) for start in range(0, shape[0], rows))
    yield from (piece.reshape(-1, *shape[1:]) for piece in element_pieces(tensor, spans))


def mapped_array(tensor: ir.ExternalTensor) -> NDArray[Any]:
    """Returns a tensor that lies in a file, mapped as long as someone holds the array; onnx-ir's own stays for good."""
    if not tensor.nbytes or not _is_plain(tensor):
        return np.asarray(tensor.numpy())
    (array,) = element_pieces(tensor, [(0, math.prod(tensor.shape.numpy()))])
    return array.reshape(tensor.shape.numpy())


def _is_plain(tensor: ir.TensorProtocol) -> bool:
    """Whether the bytes of a file are the elements as NumPy holds them."""
    return tensor.dtype.bitwidth >= 8 and tensor.dtype != ir.DataType.STRING and sys.byteorder == "little"


def byte_pieces(tensor: ir.TensorProtocol) -> Iterator[NDArray[np.uint8]]:
    """Yields the bytes of `tensor` as a file holds them."""
    if isinstance(tensor, ir.Tensor) and _is_plain(tensor):
        array = np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8)
        yield from (array[start : start + PIECE_BYTES] for start in range(0, array.size, PIECE_BYTES))
        return
    if not isinstance(tensor, ir.ExternalTensor):
        yield np.frombuffer(tensor.tobytes(), np.uint8)
        return
    starts = range(0, tensor.nbytes, PIECE_BYTES)
    yield from _mapped(tensor, ((start, min(start + PIECE_BYTES, tensor.nbytes)) for start in starts))


def _mapped(tensor: ir.ExternalTensor, ranges: Iterable[tuple[int, int]]) -> Iterator[NDArray[np.uint8]]:
    offset = tensor.offset or 0
    with Path(tensor.path).open("rb") as stream:
        waiting: NDArray[np.uint8] | None = None
        for start, stop in ranges:
            if start == stop:
                continue
            following = _map(stream.fileno(), offset + start, stop - start)
            if waiting is not None:
                yield waiting
            waiting = following
        if waiting is not None:
            yield waiting


def _map(descriptor: int, start: int, size: int) -> NDArray[np.uint8]:
    skipped = start % mmap.ALLOCATIONGRANULARITY
    mapped = mmap.mmap(descriptor, size + skipped, access=mmap.ACCESS_READ, offset=start - skipped)
    if hasattr(mmap, "MADV_WILLNEED"):
        for at in range(0, len(mapped), _ASKED):
            mapped.madvise(mmap.MADV_WILLNEED, at, min(_ASKED, len(mapped) - at))
    return np.frombuffer(mapped, np.uint8, size, skipped)


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
