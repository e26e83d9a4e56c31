"""The pipeline for presets that leave activations alone, in reading order: load, prepare, place, rewrite, save.

No large weight is read before it is written, and none as a whole, so that models larger than memory pass through.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from quarkfast.config import Scheme
from quarkfast.errors import UnsupportedError
from quarkfast.planning import outline_weights
from quarkfast.progress import Clock
from quarkfast.provenance import sign
from quarkfast.summary import FloatNode, Summary

if TYPE_CHECKING:
    from quarkfast.deferred import ir
    from quarkfast.graph.load import ModelSource

__all__ = ["NO_OUTPUT", "store_weights"]

NO_OUTPUT = "quantize: expected an output for a model of more than 2 GiB, got none"


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
        from quarkfast.graph.external import check_not_a_source
        from quarkfast.graph.load import external_bytes, external_files, load_model, model_bytes
        from quarkfast.graph.notes import notes_of
        from quarkfast.graph.opset import opset_version
        from quarkfast.graph.save import check_output
        from quarkfast.prepare import prepare_for_weights
        from quarkfast.weights import lowest_opset, place_weights, rewrite
    path = None if output is None else check_output(output)
    with clock.stage("load"):
        loaded = load_model(model)
        before, outside = model_bytes(model, loaded), external_bytes(loaded) > 0
        if path is not None:
            check_not_a_source(path, model, external_files(loaded))
    with clock.stage("prepare"):
        prepared = prepare_for_weights(loaded, lowest_opset(loaded, scheme))
        placement = place_weights(prepared, scheme)
        if not placement.weights:
            warnings.warn("quantize: the model has no weight that can be stored so; all of them stay", stacklevel=3)
        notes = rewrite(prepared, placement, scheme)
        sign(prepared, outline_weights(placement, scheme), {})
    with clock.stage("save"):
        data, after = _write(prepared, path, outside)
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
        opset=opset_version(prepared),
        bytes_before=before,
        bytes_after=after,
        seconds=dict(clock.seconds),
        notes=(*notes_of(prepared), *notes),
    )
    return data, summary, path


def _write(model: ir.Model, path: Path | None, outside: bool) -> tuple[bytes, int]:
    """Returns the bytes of the ONNX file, and of everything."""
    from quarkfast.graph.external import needs_data_file, whole_bytes, write_model

    large = needs_data_file(model)
    if path is not None:
        return write_model(model, path, external=large or outside)
    if large:
        raise UnsupportedError(NO_OUTPUT)
    data = whole_bytes(model)
    return data, len(data)
