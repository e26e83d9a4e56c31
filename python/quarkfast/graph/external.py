"""A model in two files: the graph, and beside it the data of its constants, written tensor by tensor."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.external_data_helper import ExternalDataInfo

from quarkfast.atomic_files import check_output, link_file, save_bytes, save_files, target_of
from quarkfast.deferred import ir
from quarkfast.errors import OutputError
from quarkfast.graph.access import name_of, shape_of
from quarkfast.graph.chunked_io import Stream, StreamedTensor, byte_pieces
from quarkfast.graph.load import ModelSource
from quarkfast.graph.save import PROTOBUF_LIMIT, serialize
from quarkfast.graph.shape_inference import restore_map_types
from quarkfast.graph.subgraphs import graphs_of

__all__ = [
    "DataFile",
    "check_not_a_source",
    "constants_of",
    "data_file",
    "exceeds_one_file",
    "lay_out",
    "needs_data_file",
    "read_constant",
    "replace_constant",
    "tensor_bytes",
    "whole_bytes",
    "write_model",
]

# Below this a constant stays in the graph's file: shapes, scales and bounds, which tools want to see.
_SMALL = 1024

# Runtimes map large tensors into memory, which begins at a page; small ones need no more than a cache line.
_LARGE, _PAGE, _LINE = 1 << 20, 4096, 64

# Bytes of a file name.
_LONGEST = 255

# Bytes after which the disk is asked to begin.
_FLUSHED = 1 << 26

# Pieces that may wait to be written.
_PENDING = 1


def data_file(output: Path) -> Path:
    """Returns where the data of a model that is written to `output` goes: beside the file that a link leads to.

    The graph tells its name in UTF-8, and names have 255 bytes: where that is too little it is cut, and has a hash.

    Example:
        >>> data_file(Path("model.onnx")).name
        'model.onnx.data'
    """
    target = target_of(output)
    whole = os.fsencode(target.name)
    name = f"{target.name}.data"
    if len(whole) > _LONGEST - len(".data") or whole.decode(errors="replace") != target.name:
        digest = hashlib.sha256(whole).hexdigest()[:12]
        start = whole[: _LONGEST - len(f".{digest}.data")].decode(errors="ignore")
        name = f"{start}.{digest}.data"
    return target.with_name(name)


def tensor_bytes(model: ir.Model) -> int:
    """Returns how many bytes the constants of `model` take."""
    return sum(tensor.nbytes for _, tensor in constants_of(model))


def needs_data_file(model: ir.Model) -> bool:
    """Whether `model` is too large for one file."""
    return exceeds_one_file(tensor_bytes(model))


def exceeds_one_file(size: int) -> bool:
    """Whether a model whose constants take `size` bytes is too large for one file."""
    # What is not a constant (nodes, names) hardly ever takes more than a sixteenth of the limit.
    return size > PROTOBUF_LIMIT - PROTOBUF_LIMIT // 16


def write_model(model: ir.Model, output: Path, *, external: bool) -> tuple[bytes, int]:
    """Writes `model` to `output` whole or not at all, tensor by tensor if it takes two files.

    Constants that are streamed are made on the way; afterwards the model's large constants refer to the new data file.
    Where `output` is a link, both files lie where it leads to, and beside it is another link, to the data: runtimes
    look for that beside what they are given.

    Args:
        model: The model; changed in place.
        output: Path of the ONNX file.
        external: Whether the data goes into a file of its own, `output` with ``.data`` behind it.

    Returns:
        The bytes of the ONNX file, and the bytes of both files together.

    Raises:
        OutputError: If a file cannot be written. Nothing is left behind.
        ModelError: If a constant that is streamed cannot be made, for example because it holds NaN.
    """
    if not external:
        data = whole_bytes(model)
        save_bytes(data, output)
        return data, len(data)
    data_path = check_output(data_file(output))
    if output.is_symlink():
        link_file(output.with_name(data_path.name), data_path)
    laid_out = lay_out(model, data_path)
    proto = _graph_bytes(model)
    save_files({data_path: laid_out.write, output: proto}, retract=output)
    return proto, len(proto) + laid_out.size


def check_not_a_source(output: Path, model: ModelSource, sources: set[Path]) -> None:
    """Makes sure that a data file of `output` would not replace one that `model` reads under another name.

    Raises:
        OutputError: If it would.
    """
    own = isinstance(model, str | os.PathLike) and output.exists() and output.samefile(model)
    if not own and data_file(output).resolve() in sources:
        raise OutputError(
            f"output: expected a name whose data file is not in use, got {str(output)!r}; the model's own data lies in "
            f"{data_file(output).name!r}"
        )


def whole_bytes(model: ir.Model) -> bytes:
    """Returns `model` with everything in it as bytes; constants that are streamed are made.

    Raises:
        ModelError: If one of them cannot be made.
        UnsupportedError: If the model does not fit into one protobuf.
    """
    for value, tensor in constants_of(model):
        if isinstance(tensor, StreamedTensor):
            value.const_value = tensor.made()
    return serialize(model)


class DataFile:
    """What a data file is to hold, and where."""

    def __init__(self) -> None:
        self.size = 0
        self._copied: list[tuple[ir.TensorProtocol, int]] = []
        self._made: dict[Stream, dict[int, int]] = {}

    def place(self, tensor: ir.TensorProtocol) -> int:
        """Returns the offset at which `tensor` will be."""
        boundary = _PAGE if tensor.nbytes >= _LARGE else _LINE
        offset = -(-self.size // boundary) * boundary
        self.size = offset + tensor.nbytes
        if isinstance(tensor, StreamedTensor):
            self._made.setdefault(tensor.stream, {})[tensor.index] = offset
        else:
            self._copied.append((tensor, offset))
        return offset

    def write(self, file: IO[bytes]) -> None:
        """Writes everything; in memory is no more than a few pieces of one tensor."""
        file.truncate(self.size)
        with _WriteBehind(file) as behind:
            for tensor, offset in self._copied:
                for piece in byte_pieces(tensor):
                    behind.write(offset, piece)
                    offset += piece.nbytes
            for stream, offsets in self._made.items():
                _make(stream, offsets, behind)


class _WriteBehind:
    """Writes what is finished while the rest is made, and has the disk begin; the system would let gigabytes wait."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._waiting = 0
        self._writer, self._flusher = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._writes: deque[Future[None]] = deque()
        self._flush: Future[None] | None = None

    def __enter__(self) -> _WriteBehind:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._flusher, self._writer:  # both end before anything is raised
            if kind is None:
                self._wait(0)

    def write(self, offset: int, data: NDArray[Any]) -> None:
        """Writes the bytes of `data`, which must not change any more, at `offset`. Raises what earlier writes met."""
        self._wait(_PENDING)
        self._writes.append(self._writer.submit(self._put, offset, np.ascontiguousarray(data)))

    def _wait(self, pending: int) -> None:
        while len(self._writes) > pending:
            self._writes.popleft().result()

    def _put(self, offset: int, data: NDArray[Any]) -> None:
        self._file.seek(offset)
        self._file.write(data.view(np.uint8).data)
        self._waiting += data.nbytes
        if self._waiting >= _FLUSHED and (self._flush is None or self._flush.done()):
            if self._flush is not None:
                self._flush.result()
            self._waiting = 0
            self._flush = self._flusher.submit(os.fsync, self._file.fileno())


def _make(stream: Stream, offsets: dict[int, int], behind: _WriteBehind) -> None:
    ends = dict(offsets)

    def append(index: int, data: NDArray[Any]) -> None:
        if index in ends and data.size:
            behind.write(ends[index], data)
            ends[index] += data.nbytes

    stream.run(append)
    for index, offset in offsets.items():
        made, expected = ends[index] - offset, stream.outputs[index].nbytes
        if made != expected:
            raise RuntimeError(f"tensor {stream.outputs[index].name!r}: expected {expected} bytes, got {made}")


def lay_out(model: ir.Model, path: Path, least: int = _SMALL, kept: Path | None = None) -> DataFile:
    """Gives every constant of `least` bytes its place in a data file, and lets the graph refer to it.

    Those that lie in a file, or are streamed, get a place whatever their size; those in files of `kept` stay there.
    """
    file = DataFile()
    for value, tensor in constants_of(model):
        if kept is not None and isinstance(tensor, ir.ExternalTensor) and Path(tensor.base_dir) == kept:
            continue
        if isinstance(tensor, StreamedTensor | ir.ExternalTensor) or tensor.nbytes >= least:
            offset, shape = file.place(tensor), ir.Shape(shape_of(tensor))
            value.const_value = ir.ExternalTensor(
                path.name, offset, tensor.nbytes, tensor.dtype, shape=shape, name=name_of(value), base_dir=path.parent
            )
    return file


def constants_of(model: ir.Model) -> Iterator[tuple[ir.Value, ir.TensorProtocol]]:
    """Yields the initializers of `model` and its bodies, with what they hold; those of strings are left out."""
    for graph in graphs_of(model):
        for value in graph.initializers.values():
            if value.const_value is not None and value.const_value.dtype != ir.DataType.STRING:
                yield value, value.const_value


def _graph_bytes(model: ir.Model) -> bytes:
    proto = restore_map_types(model, ir.serde.serialize_model(model))
    return bytes(proto.SerializeToString(deterministic=True))


def read_constant(tensor: onnx.TensorProto, folder: Path | None) -> NDArray[Any]:
    """Returns the values of a constant.

    Args:
        tensor: The constant.
        folder: Where the files are that its model refers to, or None.

    Example:
        >>> read_constant(onnx.numpy_helper.from_array(np.float32([1, 2]), "w"), None).tolist()
        [1.0, 2.0]
    """
    return np.asarray(onnx.numpy_helper.to_array(tensor, str(folder or "")))


def replace_constant(tensor: onnx.TensorProto, values: NDArray[Any], folder: Path | None) -> None:
    """Puts other values of the same shape and type in the place of a constant's own, in its file if it has one.

    A protobuf keeps the memory of what it held before, so that a large constant takes it once more each time.

    Args:
        tensor: The constant.
        values: What it is to be.
        folder: Where the files are that its model refers to, or None.

    Example:
        >>> tensor = onnx.numpy_helper.from_array(np.float32([1, 2]), "w")
        >>> replace_constant(tensor, np.float32([3, 4]), None)
        >>> read_constant(tensor, None).tolist()
        [3.0, 4.0]
    """
    replaced = onnx.numpy_helper.from_array(values, tensor.name)
    if folder is None or tensor.data_location != onnx.TensorProto.EXTERNAL:
        tensor.CopyFrom(replaced)
        return
    place = ExternalDataInfo(tensor)
    with (folder / place.location).open("r+b") as file:
        file.seek(place.offset or 0)
        file.write(replaced.raw_data)
