"""The pipeline for presets that leave activations alone, in reading order: load, prepare, place, rewrite, save.

No large weight is read before it is written, and none as a whole, so that models larger than memory pass through.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quarkfast.config import Scheme
from quarkfast.errors import UnsupportedError
from quarkfast.pipeline.metadata import sign
from quarkfast.pipeline.plan import outline_weights
from quarkfast.pipeline.progress import Clock
from quarkfast.pipeline.summary import FloatNode, Summary

if TYPE_CHECKING:
    from quarkfast.deferred import ir
    from quarkfast.graph.load import ModelSource

__all__ = ["store_weights"]


def store_weights(
    model: ModelSource, output: str | os.PathLike[str] | None, scheme: Scheme, clock: Clock
) -> tuple[bytes, Summary, Path | None]:
    """Stores the weights of `model` in the type of `scheme.weight`.

    Args:
        model: Path of an ONNX file, an ``onnx.ModelProto`` or an ``onnx_ir.Model``; it is not changed.
        output: Where to write the result. Its data goes into a second file, ``OUTPUT.data``, if it is too large for one
            or if the model's own data lies outside its file.
        scheme: One with `weights_only`.
        clock: Measures the stages.

    Returns:
        The bytes of the ONNX file, the summary, and the path that was written, or None.

    Raises:
        ConfigError: If a name in the scheme is not in the model.
        ModelError: If the model cannot be read, or a weight is NaN or infinite.
        OutputError: If the result cannot be written. Nothing is left behind.
        UnsupportedError: If the model cannot be converted, or there is no `output` and it does not fit into one file.
    """
    with clock.stage("import"):
        from quarkfast.atomic_files import check_output
        from quarkfast.graph.external import check_not_a_source
        from quarkfast.graph.load import external_bytes, external_files, load_model, model_bytes
        from quarkfast.graph.notes import notes_of
        from quarkfast.pipeline.prepare import prepare_for_weights
        from quarkfast.quantization.weight_only import plan_weights
        from quarkfast.writers.weight_only.opset import lowest_opset
        from quarkfast.writers.weight_only.rewrite import rewrite
    path = None if output is None else check_output(output)
    with clock.stage("load"):
        loaded = load_model(model)
        before, outside = model_bytes(model, loaded), external_bytes(loaded) > 0
        if path is not None:
            check_not_a_source(path, model, external_files(loaded))
    with clock.stage("prepare"):
        prepared = prepare_for_weights(loaded, lowest_opset(loaded, scheme))
        planned = plan_weights(prepared, scheme)
        placement = planned.placement
        if placement.weights:
            notes = rewrite(prepared, planned, scheme)  # more while constants are written
            sign(prepared, outline_weights(placement, scheme), {})
    with clock.stage("save"):
        if placement.weights:
            written = _write(prepared, path, outside)
            said = (*notes_of(prepared), *notes)
        else:
            written, said = _unchanged(model, path), ()
    summary = Summary(
        preset=scheme.name,
        target=scheme.target,
        activation=scheme.activation.dtype,
        weight=scheme.weight.dtype,
        quantized=dict(Counter(placement.quantized.values())),
        left_float=tuple(FloatNode(left.node, left.op_type, left.reason) for left in placement.left_float),
        pairs=0,
        weights=len(placement.weights),
        biases=0,
        samples=0,
        opset=written.opset,
        bytes_before=before,
        bytes_after=written.size,
        seconds=dict(clock.seconds),
        notes=said,
    )
    return written.data, summary, path


@dataclass(frozen=True, slots=True)
class _Written:
    """The bytes of the ONNX file, how many there are with those of a second one, and the operator set."""

    data: bytes
    size: int
    opset: int


def _unchanged(model: ModelSource, path: Path | None) -> _Written:
    """Returns the model as it came, after saying so, and writes it."""
    from quarkfast.atomic_files import save_bytes
    from quarkfast.graph.unchanged import copy_unchanged

    warnings.warn("quantize: the model has no weight that can be stored so; all of them stay", stacklevel=4)
    copy = copy_unchanged(model, path)
    if copy.size is None and path is not None:
        save_bytes(copy.data, path)
    return _Written(copy.data, len(copy.data) if copy.size is None else copy.size, copy.opset)


def _write(model: ir.Model, path: Path | None, outside: bool) -> _Written:
    """Returns `model`, and writes it."""
    from quarkfast.graph.external import needs_data_file, whole_bytes, write_model
    from quarkfast.graph.opset import opset_version
    from quarkfast.graph.unchanged import NO_OUTPUT

    large, opset = needs_data_file(model), opset_version(model)
    if path is not None:
        return _Written(*write_model(model, path, external=large or outside), opset)
    if large:
        raise UnsupportedError(NO_OUTPUT)
    data = whole_bytes(model)
    return _Written(data, len(data), opset)
