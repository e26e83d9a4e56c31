"""Converters from a model to a model, without a file."""

from __future__ import annotations

from typing import Any

from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.graph.shape_inference import drop_stale_shapes, restore_map_types
from quarkfast.transforms.clean import lift_constants, sort
from quarkfast.transforms.fix_shapes import move_channels_last
from quarkfast.transforms.half_precision import widen_ends
from quarkfast.transforms.infer_types import infer_types, open_outputs

__all__ = ["as_float32", "with_channels_last"]


def as_float32(model: ModelSource) -> Any:
    """Returns what :func:`quarkfast.tools.to_float32` writes, as an ``onnx.ModelProto``.

    Raises:
        ModelError: If the model cannot be read.
    """
    loaded = _typed(model)
    widen_ends(loaded)
    return _proto(loaded)


def with_channels_last(model: ModelSource) -> Any:
    """Returns what :func:`quarkfast.tools.to_channels_last` writes, as an ``onnx.ModelProto``.

    Raises:
        ModelError: If the model cannot be read, or has no input and output of four dimensions.
    """
    loaded = _typed(model)
    if not move_channels_last(loaded):
        raise ModelError("model: expected an input or output of 4 dimensions, got none")
    return _proto(loaded)


def _typed(model: ModelSource) -> ir.Model:
    loaded = load_model(model)
    sort(loaded)
    lift_constants(loaded)
    drop_stale_shapes(loaded)
    infer_types(loaded)
    open_outputs(loaded)
    return loaded


def _proto(model: ir.Model) -> Any:
    """Returns a model with the data that it has in files, which a model in memory has no folder to look for in."""
    return restore_map_types(model, ir.serde.serialize_model(ir.external_data.load_to_model(model)))
