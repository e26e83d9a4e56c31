"""The result of a quantization that found nothing to quantize: the model as it came."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import onnx

from quarkfast.errors import UnsupportedError
from quarkfast.graph.external import needs_data_file, write_model
from quarkfast.graph.load import ModelSource, external_bytes, load_model
from quarkfast.graph.save import serialize

__all__ = ["NO_OUTPUT", "Unchanged", "copy_unchanged"]

NO_OUTPUT = "quantize: expected an output for a model of more than 2 GiB, got none"


class Unchanged(NamedTuple):
    """A model as it came.

    Attributes:
        data: The bytes of the ONNX file.
        size: Bytes of both files, where it took two and they are on the disk already.
        opset: Version of the standard operators; 0 without any.
    """

    data: bytes
    size: int | None
    opset: int


def copy_unchanged(model: ModelSource, path: Path | None) -> Unchanged:
    """Returns the bytes of `model`; writes it to `path` if that takes two files.

    Raises:
        ModelError: If the model cannot be read.
        OutputError: If it cannot be written. Nothing is left behind.
        UnsupportedError: If there is no `path` and it does not fit into one file.
    """
    loaded = load_model(model)
    opset = loaded.opset_imports.get("", 0)
    if not external_bytes(loaded):
        if isinstance(model, onnx.ModelProto) and not needs_data_file(loaded):
            return Unchanged(model.SerializeToString(deterministic=True), None, opset)
        if isinstance(model, str | os.PathLike):
            return Unchanged(Path(model).read_bytes(), None, opset)
    if not needs_data_file(loaded):
        return Unchanged(serialize(loaded), None, opset)
    if path is None:
        raise UnsupportedError(NO_OUTPUT)
    data, size = write_model(loaded, path, external=True)
    return Unchanged(data, size, opset)
