"""How long a run of a float model and of a quantized one takes on the first sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarkfast.calibration.data import CalibrationData, model_inputs, open_data
from quarkfast.calibration.data.inputs import batch_of, rows_of
from quarkfast.evaluate.latency import Latency, time_runs
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.graph.save import file_or_bytes
from quarkfast.pipeline.single_rows import cut_to_rows

__all__ = ["measure_latency"]


def measure_latency(
    reference: ModelSource,
    model: ModelSource,
    data: CalibrationData,
    *,
    preprocess: str | Mapping[str, Any] | None = None,
) -> Latency:
    """Times a float model and a quantized one in turn, in default sessions of ONNX Runtime on this processor.

    Takes about two seconds, or three runs of each. What else the machine does meanwhile is in the figures.

    Args:
        reference: The float model: a path, an ``onnx.ModelProto`` or an ``onnx_ir.Model``.
        model: The quantized model.
        data: Samples, of every kind that :func:`quarkfast.quantize` takes; the first is run, as one row where the model
            leaves their number open.
        preprocess: How image files become inputs, as for :func:`quarkfast.quantize`.

    Raises:
        ModelError: If a model cannot be read or run.
        CalibrationError: If the data do not fit the model.

    Example:
        >>> import quarkfast
        >>> from quarkfast.demo.data import MODEL, load_images
        >>> images = {"image": load_images().calibration[:1]}
        >>> result = quarkfast.quantize(MODEL, "digits.onnx", "A8W8", images)
        >>> found = quarkfast.measure_latency(MODEL, "digits.onnx", images)
        >>> found.rows, found.reference_ms > 0, found.model_ms > 0
        (1, True, True)
    """
    loaded = load_model(reference)
    inputs = model_inputs(loaded)
    opened = open_data(data, inputs, batch_of(inputs) or 1, None, preprocess)
    cut_to_rows(opened, loaded)
    del loaded
    feed = next(iter(opened))
    return time_runs(file_or_bytes(reference), file_or_bytes(model), feed, rows_of(feed))
