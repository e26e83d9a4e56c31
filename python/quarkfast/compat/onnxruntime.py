"""``onnxruntime.quantization``'s entry points: change the import and keep the script.

Members of onnxruntime's own enumerations are as welcome as the ones named here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quarkfast.config.presets import PRESETS
from quarkfast.config.quark import QuantizationConfig, scheme_of
from quarkfast.config.quark.enums import CalibrationMethod, QuantFormat, QuantType
from quarkfast.config.scheme import Scheme
from quarkfast.errors import UnsupportedError
from quarkfast.search.quantize import quantize

__all__ = ["CalibrationMethod", "QuantFormat", "QuantType", "quantize_dynamic", "quantize_static"]

# Keys of onnxruntime that Quark calls something else; calibration holds one batch, whatever the second asks for.
_QUARK_KEYS = {"CalibPercentile": "Percentile", "CalibMaxIntermediateOutputs": "CalibWorkerNum"}


def quantize_static(
    model_input: Any,
    model_output: str | os.PathLike[str],
    calibration_data_reader: Any,
    quant_format: Any = QuantFormat.QDQ,
    op_types_to_quantize: list[str] | None = None,
    per_channel: bool = False,
    reduce_range: bool = False,
    activation_type: Any = QuantType.QInt8,
    weight_type: Any = QuantType.QInt8,
    nodes_to_quantize: list[str] | None = None,
    nodes_to_exclude: list[str] | None = None,
    use_external_data_format: bool = False,
    calibrate_method: Any = CalibrationMethod.MinMax,
    calibration_providers: list[str] | None = None,
    extra_options: Mapping[str, Any] | None = None,
) -> None:
    """Quantize a model as ``onnxruntime.quantization.quantize_static`` does.

    Args:
        model_input: Path of an ONNX file or an ``onnx.ModelProto``.
        model_output: Where to write the result.
        calibration_data_reader: A reader with ``get_next``, or anything that :func:`quarkfast.quantize` takes.
        quant_format: ``QuantFormat.QDQ``, the only form there is.
        op_types_to_quantize: Operator types to quantize; None means all that have a rule.
        per_channel: Give each output channel of a weight its own scale.
        reduce_range: Use half of the codes of weights.
        activation_type: Quantized type of activations.
        weight_type: Quantized type of weights, which all of them get (``strict``).
        nodes_to_quantize: Names of the only nodes to quantize; None or empty means all.
        nodes_to_exclude: Names of nodes that stay float.
        use_external_data_format: Accepted; large models get external data by themselves.
        calibrate_method: How ranges are found.
        calibration_providers: Must be None or the CPU's.
        extra_options: Options by onnxruntime's or Quark's keys.

    Raises:
        ConfigError: An option is unknown.
        UnsupportedError: An option is known and cannot be honoured.
        QuarkfastError: As :func:`quarkfast.quantize`.

    Example:
        >>> import numpy as np, onnx
        >>> graph = onnx.parser.parse_graph("g (float[N, 4] x) => (float[N, 4] y) { y = Add(x, x) }")
        >>> model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
        >>> quantize_static(model, "out.onnx", [{"x": np.ones((2, 4), np.float32)}])
        >>> sum(node.op_type == "QuantizeLinear" for node in onnx.load("out.onnx").graph.node)
        2
    """
    if getattr(quant_format, "name", "") != "QDQ":
        raise UnsupportedError(f"quantize_static: quant_format: expected QuantFormat.QDQ, got {quant_format!r}")
    config = QuantizationConfig(
        calibrate_method=calibrate_method,
        activation_type=activation_type,
        weight_type=weight_type,
        op_types_to_quantize=list(op_types_to_quantize or []),
        nodes_to_quantize=list(nodes_to_quantize or []),
        nodes_to_exclude=list(nodes_to_exclude or []),
        per_channel=per_channel,
        reduce_range=reduce_range,
        execution_providers=list(calibration_providers or ["CPUExecutionProvider"]),
        use_external_data_format=use_external_data_format,
        include_cle=False,
        extra_options={_QUARK_KEYS.get(key, key): value for key, value in (extra_options or {}).items()},
    )
    scheme = replace(for_cpu(scheme_of(config)), strict=True)
    quantize(model_input, model_output, scheme, calibration_data_reader)


def for_cpu(scheme: Scheme) -> Scheme:
    """Return the scheme with onnxruntime's placement, whatever the symmetry of its activations."""
    return scheme if scheme.encoding != "qdq" else replace(scheme, target=PRESETS["U8S8"].target)


def quantize_dynamic(
    model_input: Any,
    model_output: str | os.PathLike[str],
    op_types_to_quantize: list[str] | None = None,
    per_channel: bool = False,
    reduce_range: bool = False,
    weight_type: Any = QuantType.QInt8,
    nodes_to_quantize: list[str] | None = None,
    nodes_to_exclude: list[str] | None = None,
    use_external_data_format: bool = False,
    extra_options: Mapping[str, Any] | None = None,
) -> None:
    """Quantize weights now and activations when the model runs, as ``onnxruntime.quantization.quantize_dynamic`` does.

    Args:
        model_input: Path of an ONNX file or an ``onnx.ModelProto``.
        model_output: Where to write the result.
        op_types_to_quantize: Operator types to quantize; None means Conv, Gather, Gemm and MatMul.
        per_channel: Give each output channel of a weight its own scale.
        reduce_range: Use half of the codes of weights.
        weight_type: ``QuantType.QInt8`` or ``QuantType.QUInt8``.
        nodes_to_quantize: Names of the only nodes to quantize; None or empty means all.
        nodes_to_exclude: Names of nodes that stay float.
        use_external_data_format: Accepted; large models get external data by themselves.
        extra_options: Options by onnxruntime's keys.

    Raises:
        ConfigError: An option is unknown, or the weight type is another.
        UnsupportedError: An option is known and cannot be honoured.
        QuarkfastError: As :func:`quarkfast.quantize`.

    Example:
        >>> import numpy as np, onnx
        >>> graph = onnx.parser.parse_graph("g (float[N, 4] x) => (float[N, 4] y) { y = MatMul(x, w) }")
        >>> graph.initializer.extend([onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")])
        >>> model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
        >>> quantize_dynamic(model, "out.onnx")
        >>> [node.op_type for node in onnx.load("out.onnx").graph.node][:2]
        ['DynamicQuantizeLinear', 'MatMulInteger']
    """
    config = QuantizationConfig(
        activation_type=QuantType.QUInt8,
        weight_type=weight_type,
        op_types_to_quantize=list(op_types_to_quantize or []),
        nodes_to_quantize=list(nodes_to_quantize or []),
        nodes_to_exclude=list(nodes_to_exclude or []),
        per_channel=per_channel,
        reduce_range=reduce_range,
        use_dynamic_quant=True,
        use_external_data_format=use_external_data_format,
        include_cle=False,
        extra_options=dict(extra_options or {}),
    )
    quantize(model_input, model_output, scheme_of(config))
