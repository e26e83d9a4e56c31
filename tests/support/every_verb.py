"""Every verb over one model: what a user may do with it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

import quarkfast
from quarkfast import ort, tools

__all__ = ["run_every_verb", "run_everywhere"]


def run_every_verb(
    model: onnx.ModelProto, preset: str, data: Mapping[str, NDArray[Any]], folder: Path, **options: Any
) -> quarkfast.QuantizedModel:
    """Inspects, plans, calibrates, quantizes, checks, compares, evaluates, verifies and converts a model.

    Args:
        model: The float model.
        preset: The preset.
        data: Samples by the names of inputs.
        folder: Where to write files.
        options: Further options of `quantize`.

    Returns:
        The quantized model, which has run.
    """
    source, output = folder / "float.onnx", folder / "quantized.onnx"
    onnx.save(model, source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quarkfast.inspect_model(source)
        quarkfast.plan(source, preset)
        quarkfast.calibrate(source, data)
        result = quarkfast.quantize(source, output, preset, data, **options)
        quarkfast.inspect_model(output)
        quarkfast.check_model(output, "ryzenai-a8w8")
        quarkfast.compare_models(source, output, data)
        quarkfast.evaluate_models(source, output, data)
        quarkfast.verify(output, [{name: array[:1] for name, array in data.items()}], source)
        tools.convert_operator_set(source, folder / "newer.onnx", 21)
        tools.remove_qdq(output, folder / "without.onnx")
    for each in (output, folder / "newer.onnx", folder / "without.onnx"):
        run_everywhere(each, data)
    return result


def run_everywhere(model: str | Path | bytes, data: Mapping[str, NDArray[Any]]) -> list[Any]:
    """Runs a model at the lowest and at the highest level of optimization, and returns the outputs of the first."""
    levels = onnxruntime.GraphOptimizationLevel
    runs = []
    for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL):
        options = ort.session_options()
        options.graph_optimization_level = level
        found = ort.run(ort.inference_session(model, options), {name: array[:1] for name, array in data.items()})
        assert all(np.isfinite(each).all() for each in found if isinstance(each, np.ndarray) and each.dtype.kind == "f")
        runs.append(found)
    return runs[0]
