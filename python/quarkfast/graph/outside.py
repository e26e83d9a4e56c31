"""Large models as ONNX Runtime reads them: a graph that refers to constants in files of one folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx

from quarkfast.deferred import ir
from quarkfast.errors import OutputError
from quarkfast.graph.access import shape_of
from quarkfast.graph.external import constants_of, lay_out, needs_data_file, tensor_bytes
from quarkfast.graph.save import to_proto

__all__ = ["constants_in_files", "proto_and_folder", "stays_in_files"]

# From here on constants that lie in files stay there. Of 592 MB of weights, calibration held 2.36 GB as one protobuf,
# which onnxruntime copies, and 0.68 GB as files, which it maps.
_WHOLE = 1 << 28

# Below this a constant goes along with the graph: 2 GiB hold 32768 such, and no model has as many.
_LEAST = 1 << 16


@contextmanager
def constants_in_files(model: ir.Model, folder: Path | None = None) -> Iterator[None]:
    """Keeps the large constants of a large model in files of one folder, if they are there or it cannot do without.

    1. A model of less than 256 MiB stays as it is. Of a larger one, small constants are read into memory.
    2. If all others lie in files of one folder, these are used.
    3. If not (a pass has changed a weight, or the model came from memory), and the model is too large for one protobuf,
       all of them are written to a temporary file, tensor by tensor. It is removed at the end, and the model is then of
       no use.

    Args:
        model: The model; changed in place.
        folder: Where a temporary file may be made; None means the system's folder for such files.

    Raises:
        OutputError: If there is no room for the file.
    """
    if tensor_bytes(model) <= _WHOLE:
        yield
        return
    _read_small(model)
    if _folder_of(model) is not None or not needs_data_file(model):
        yield
        return
    with _folder_beside(folder) as temporary:
        _write(model, temporary)
        yield


def proto_and_folder(model: ir.Model) -> tuple[onnx.ModelProto, Path | None]:
    """Returns a model as a protobuf, and the folder that its references start from, or None where it has none.

    Raises:
        UnsupportedError: If it is too large for one protobuf, and its constants are not in files of one folder.
    """
    folder = _folder_of(model)
    if folder is None:
        return to_proto(model), None
    return ir.serde.serialize_model(model), folder


def stays_in_files(model: ir.Model) -> bool:
    """Whether ONNX Runtime reads the large constants of `model` from files itself."""
    return _folder_of(model) is not None


def _folder_of(model: ir.Model) -> Path | None:
    """Returns the folder that a large model refers to, or None if a constant is in memory or they are in several."""
    if tensor_bytes(model) <= _WHOLE:
        return None
    folders: set[Path | None] = set()
    for _, tensor in constants_of(model):
        if isinstance(tensor, ir.ExternalTensor):
            folders.add(Path(tensor.base_dir).resolve())
        elif tensor.nbytes >= _LEAST:
            folders.add(None)
    return folders.pop() if len(folders) == 1 else None


def _read_small(model: ir.Model) -> None:
    for value, tensor in constants_of(model):
        if isinstance(tensor, ir.ExternalTensor) and tensor.nbytes < _LEAST:
            value.const_value = _in_memory(tensor)


def _in_memory(tensor: ir.ExternalTensor) -> ir.TensorProtocol:
    proto = onnx.TensorProto(
        name=tensor.name, data_type=int(tensor.dtype), dims=shape_of(tensor), raw_data=tensor.tobytes()
    )
    return ir.serde.deserialize_tensor(proto)


@contextmanager
def _folder_beside(folder: Path | None) -> Iterator[Path]:
    try:
        temporary = tempfile.TemporaryDirectory(prefix=".quarkfast_", dir=folder, ignore_cleanup_errors=True)
    except OSError as error:
        raise OutputError(f"calibration: expected a folder for weights, got {error.strerror}") from error
    with temporary as name:
        yield Path(name).resolve()


def _write(model: ir.Model, folder: Path) -> None:
    path = folder / "weights"
    laid_out = lay_out(model, path, _LEAST)
    try:
        with path.open("wb") as file:
            laid_out.write(file)
    except OSError as error:
        raise OutputError(
            f"calibration: expected room for {laid_out.size} bytes of weights in {str(folder.parent)!r}, "
            f"got {error.strerror}"
        ) from error
