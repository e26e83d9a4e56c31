"""``quark.onnx.quantize_static`` and ``quantize_dynamic``: the fields of a ``QuantizationConfig`` as arguments."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any

from quarkfast.compat.model_quantizer import ModelQuantizer
from quarkfast.config.quark import Config, QuantizationConfig
from quarkfast.config.quark.enums import QuantType
from quarkfast.errors import ConfigError, did_you_mean

__all__ = ["quantize_dynamic", "quantize_static"]

# An older name of a field.
_RENAMED = {"enable_dpu": "enable_npu_cnn"}


def quantize_static(
    model_input: Any,
    model_output: str | os.PathLike[str] | None = None,
    calibration_data_reader: Any = None,
    calibration_data_path: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Any:
    """Quantize a model as Quark's function of that name does.

    Args:
        model_input: Path of an ONNX file or an ``onnx.ModelProto``.
        model_output: Where to write the result; None returns it.
        calibration_data_reader: Anything that :func:`quarkfast.quantize` takes as calibration data.
        calibration_data_path: A file or folder of calibration data, read when there is no reader.
        **settings: Fields of ``QuantizationConfig``, ``extra_options`` among them.

    Returns:
        The quantized model when `model_output` is None.

    Raises:
        ConfigError: A setting is unknown.
        QuarkfastError: As :class:`quarkfast.ModelQuantizer`.

    Example:
        >>> import numpy as np, onnx
        >>> graph = onnx.parser.parse_graph("g (float[N, 4] x) => (float[N, 4] y) { y = Add(x, x) }")
        >>> model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
        >>> found = quantize_static(model, None, [{"x": np.ones((2, 4), np.float32)}], include_cle=False)
        >>> sum(node.op_type == "QuantizeLinear" for node in found.graph.node)
        2
    """
    quantizer = ModelQuantizer(Config(_config("quantize_static", settings)))
    return quantizer.quantize_model(model_input, model_output, calibration_data_reader, calibration_data_path)


def quantize_dynamic(model_input: Any, model_output: str | os.PathLike[str] | None = None, **settings: Any) -> Any:
    """Quantize weights now and activations when the model runs, as Quark's function of that name does.

    Args:
        model_input: Path of an ONNX file or an ``onnx.ModelProto``.
        model_output: Where to write the result; None returns it.
        **settings: Fields of ``QuantizationConfig``, ``extra_options`` among them.

    Returns:
        The quantized model when `model_output` is None.

    Raises:
        ConfigError: A setting is unknown.
        QuarkfastError: As :class:`quarkfast.ModelQuantizer`.
    """
    given = {"activation_type": QuantType.QUInt8, "include_cle": False} | settings
    quantizer = ModelQuantizer(Config(_config("quantize_dynamic", given | {"use_dynamic_quant": True})))
    return quantizer.quantize_model(model_input, model_output)


def _config(where: str, settings: dict[str, Any]) -> QuantizationConfig:
    known = {each.name for each in fields(QuantizationConfig)}
    named = {_RENAMED.get(name, name): value for name, value in settings.items()}
    for name in named:
        if name not in known:
            raise ConfigError(f"{where}: expected a known argument, got {name!r}{did_you_mean(name, known)}")
    given: dict[str, Any] = {name: list(value) if isinstance(value, tuple) else value for name, value in named.items()}
    return QuantizationConfig(**{name: value for name, value in given.items() if value is not None})
