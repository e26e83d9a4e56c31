"""Files of safetensors: read by memory map, written tensor by tensor.

The package safetensors reads the header: it holds the sizes against the file before anything is allocated, and refuses
holes and overlaps. Its NumPy door knows no bfloat16 and no FP8, and copies; so the data is mapped here.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from quarkfast.errors import DependencyError, ModelError, shown

__all__ = ["KINDS", "StoredTensor", "TensorShape", "file_size", "kind_of", "read_shard", "write_shard"]

#: What safetensors calls a type of NumPy or ml_dtypes.
KINDS: Mapping[str, np.dtype[Any]] = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16),
    "I8": np.dtype(np.int8),
    "U64": np.dtype(np.uint64),
    "U32": np.dtype(np.uint32),
    "U16": np.dtype(np.uint16),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}
_KIND_OF = {dtype: kind for kind, dtype in KINDS.items()}
_WRITE_AT_ONCE = 1 << 24  # bytes


@dataclass(frozen=True)
class TensorShape:
    """The type and the shape of a tensor in a file.

    Attributes:
        kind: The type as safetensors calls it, such as ``"BF16"``.
        shape: Its sizes.
    """

    kind: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return math.prod(self.shape) * KINDS[self.kind].itemsize


@dataclass(frozen=True, eq=False)
class StoredTensor(TensorShape):
    """A tensor of a file, mapped into memory.

    Attributes:
        name: Its name.
        data: The bytes, uint8 of one dimension.
    """

    name: str
    data: NDArray[np.uint8]

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return self.data.size

    def array(self) -> NDArray[Any]:
        """The tensor as an array, a view of the file.

        Raises:
            ModelError: If NumPy and ml_dtypes have no such type.
        """
        dtype = KINDS.get(self.kind)
        if dtype is None:
            raise ModelError(f"{shown(self.name)}: expected a type among {', '.join(KINDS)}, got {self.kind}")
        return self.data.view(dtype).reshape(self.shape)


def kind_of(dtype: np.dtype[Any]) -> str:
    """What safetensors calls a dtype.

    Example:
        >>> import ml_dtypes, numpy as np
        >>> kind_of(np.dtype(ml_dtypes.bfloat16))
        'BF16'
    """
    return _KIND_OF[dtype]


def read_shard(path: Path) -> tuple[StoredTensor, ...]:
    """Maps the tensors of a file, in the order in which they lie there.

    Raises:
        ModelError: If it is no regular file of safetensors, or is cut short, or its header promises what is not there
            or names a tensor twice.
        DependencyError: If the package safetensors is missing.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise DependencyError(
            "checkpoint: expected the package safetensors, got none; pip install safetensors"
        ) from error
    if not path.is_file():
        raise ModelError(f"{path}: expected a file of safetensors, got {'a folder' if path.is_dir() else 'none'}")
    try:
        with safe_open(path, framework="numpy") as file:
            order = file.offset_keys()
            kinds = {name: (file.get_slice(name).get_dtype(), file.get_slice(name).get_shape()) for name in order}
    except SafetensorError as error:
        found = str(error).removeprefix("Error while deserializing header: ")
        raise ModelError(f"{path}: expected a file of safetensors, got one that cannot be read ({found})") from error
    header, start = _header(path)
    mapped = np.memmap(path, np.uint8, "r") if path.stat().st_size > start else np.empty(start, np.uint8)
    tensors = []
    for name in order:
        begin, end = header[name]["data_offsets"]
        kind, shape = kinds[name]
        tensors.append(StoredTensor(kind, tuple(shape), name, mapped[start + begin : start + end]))
    return tuple(tensors)


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """The header, which the package has found to be sound, and where the data begins; names twice are seen here."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise ModelError(f"{path}: expected each name once in the header, got {shown(name)} twice")
            found[name] = value
        return found

    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length), object_pairs_hook=unique), 8 + length


def _header_bytes(tensors: Mapping[str, TensorShape]) -> bytes:
    """The header of a file with these tensors, one behind the other."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + tensor.nbytes
        header[name] = {"dtype": tensor.kind, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def file_size(tensors: Mapping[str, TensorShape]) -> int:
    """Bytes of the file that :func:`write_shard` makes of these tensors.

    Example:
        >>> file_size({"w": TensorShape("F32", (2, 2))})
        112
    """
    return len(_header_bytes(tensors)) + sum(tensor.nbytes for tensor in tensors.values())


def write_shard(
    file: IO[bytes],
    tensors: Mapping[str, TensorShape],
    arrays: Iterable[tuple[str, NDArray[Any]]],
) -> None:
    """Writes a file of safetensors whose arrays come one after another.

    Args:
        file: Where to.
        tensors: Name -> type and shape, in the order of the file.
        arrays: Name and array of each, in the same order; only one is held at a time.

    Raises:
        ModelError: If an array is another than the header says.
    """
    file.write(_header_bytes(tensors))
    wanted: Iterator[tuple[str, TensorShape]] = iter(tensors.items())
    for name, array in arrays:
        expected = next(wanted, ("nothing", TensorShape("U8", ())))
        if (name, kind_of(array.dtype), array.shape) != (expected[0], expected[1].kind, expected[1].shape):
            raise ModelError(
                f"{shown(name)}: expected {expected[1].kind} of shape {expected[1].shape} for {shown(expected[0])}, "
                f"got {array.dtype} of {array.shape}"
            )
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for begin in range(0, flat.size, _WRITE_AT_ONCE):
            file.write(flat[begin : begin + _WRITE_AT_ONCE].data)
    missing = next(wanted, None)
    if missing is not None:
        raise ModelError(f"{shown(missing[0])}: expected an array to write, got none")
