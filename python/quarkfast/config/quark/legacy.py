"""Quark's older configuration: ``QuantizationConfig``, ``Config`` and the 65 names of ``get_default_config``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from quarkfast.config.quark.arguments import checked_arguments
from quarkfast.config.quark.enums import (
    CalibrationMethod,
    ExtendedQuantFormat,
    ExtendedQuantType,
    PowerOfTwoMethod,
    QuantFormat,
    QuantType,
)
from quarkfast.errors import ConfigError, did_you_mean

__all__ = ["LEGACY_NAMES", "VINT8", "Config", "QuantizationConfig", "get_default_config", "get_default_config_mapping"]


@checked_arguments
@dataclass
class QuantizationConfig:
    """Quark's older configuration, with its names and defaults; Quark's documentation describes the fields."""

    calibrate_method: Any = CalibrationMethod.MinMax
    quant_format: Any = QuantFormat.QDQ
    activation_type: Any = QuantType.QInt8
    weight_type: Any = QuantType.QInt8
    input_nodes: list[str] = field(default_factory=list)
    output_nodes: list[str] = field(default_factory=list)
    op_types_to_quantize: list[str] = field(default_factory=list)
    nodes_to_quantize: list[str] = field(default_factory=list)
    extra_op_types_to_quantize: list[str] = field(default_factory=list)
    nodes_to_exclude: list[str] = field(default_factory=list)
    subgraphs_to_exclude: list[Any] = field(default_factory=list)
    specific_tensor_precision: bool = False
    execution_providers: list[str] = field(default_factory=lambda: ["CPUExecutionProvider"])
    per_channel: bool = False
    reduce_range: bool = False
    optimize_model: bool = True
    use_dynamic_quant: bool = False
    use_external_data_format: bool = False
    convert_fp16_to_fp32: bool = False
    convert_nchw_to_nhwc: bool = False
    include_sq: bool = False
    include_rotation: bool = False
    include_cle: bool = True
    include_auto_mp: bool = False
    include_fast_ft: bool = False
    enable_npu_cnn: bool = False
    enable_npu_transformer: bool = False
    debug_mode: bool = False
    crypto_mode: bool = False
    print_summary: bool = True
    ignore_warnings: bool = True
    extra_options: dict[str, Any] = field(default_factory=dict)

    def changed(self) -> dict[str, Any]:
        """Return the fields that differ from Quark's defaults."""
        defaults = asdict(QuantizationConfig())
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if getattr(self, each.name) != defaults[each.name]
        }


@checked_arguments
@dataclass
class Config:
    """The wrapper around a :class:`QuantizationConfig` that Quark's ``ModelQuantizer`` takes."""

    global_quant_config: QuantizationConfig

    def __post_init__(self) -> None:
        if not isinstance(self.global_quant_config, QuantizationConfig):
            raise ConfigError(
                "Config: global_quant_config: expected a QuantizationConfig, "
                f"got {type(self.global_quant_config).__name__}"
            )


_QDQ, _EXTENDED = QuantFormat.QDQ, ExtendedQuantFormat.QDQ
_MINMAX, _PERCENTILE, _MSE = CalibrationMethod.MinMax, CalibrationMethod.Percentile, PowerOfTwoMethod.MinMSE
_FORCED = {"ForceQuantizeNoInputCheck": True}
_A8W8 = {**_FORCED, "AlignSlice": False, "FoldRelu": True, "AlignConcat": True}
_SYMMETRIC = {"ActivationSymmetric": True}

# Name: (calibrate_method, activation_type, weight_type, quant_format, extra_options, other fields) of a
# QuantizationConfig; types by the name of their member.
_Row = tuple[Any, str, str, Any, dict[str, Any], dict[str, Any]]
_INTEGER: dict[str, _Row] = {
    "XINT8": (_MSE, "QUInt8", "QInt8", _QDQ, {**_SYMMETRIC, **_FORCED}, {"enable_npu_cnn": True}),
    "S8S8_AAWS": (_PERCENTILE, "QInt8", "QInt8", _QDQ, {**_FORCED, "Percentile": 99.9999}, {}),
    "U8S8_AAWS": (_PERCENTILE, "QUInt8", "QInt8", _QDQ, {**_FORCED, "Percentile": 99.999}, {}),
    "S16S8_ASWS": (_PERCENTILE, "QInt16", "QInt8", _EXTENDED, {**_FORCED, **_SYMMETRIC}, {}),
    "A8W8": (_MINMAX, "QInt8", "QInt8", _EXTENDED, {**_A8W8, **_SYMMETRIC}, {}),
    "A16W8": (_MINMAX, "QInt16", "QInt8", _EXTENDED, {**_A8W8, **_SYMMETRIC, "AlignEltwiseQuantType": True}, {}),
    "U16S8_AAWS": (_PERCENTILE, "QUInt16", "QInt8", _EXTENDED, _FORCED, {}),
}
VINT8 = {
    **_FORCED, **_SYMMETRIC, "UseRandomData": True, "ConvertBNToConv": True, "ConvertSigmoidToHardSigmoid": False,
    "ConvertClipToRelu": True, "ConvertSplitToSlice": True, "SplitLargeKernelPool": False, "ReplaceClip6Relu": True,
    "ConvertReduceMeanToGlobalAvgPool": False, "Int32Bias": False, "DedicatedQDQPair": True,
    "QuantizeAllOpTypes": True, "RemoveQDQConvClip": False, "RemoveQDQConvRelu": False,
    "RemoveQDQConvLeakyRelu": False, "RemoveQDQConvPRelu": False,
}  # fmt: skip


def _bfp(bits: int, prime: bool) -> dict[str, Any]:
    attributes: dict[str, Any] = {"bfp_method": "to_bfp", "axis": 1, "bit_width": bits, "rounding_mode": 2}
    if prime:
        attributes |= {"bfp_method": "to_bfp_prime", "sub_block_size": 2, "sub_block_shift_bits": 1}
    return {"BFPAttributes": {**attributes, "block_size": 16 if prime else 8}}


def _mx(element: str) -> dict[str, Any]:
    return {"MXAttributes": {"element_dtype": element, "axis": 1, "block_size": 32, "rounding_mode": 2}}


def _mixed(member: QuantType | ExtendedQuantType, *others: dict[str, Any]) -> dict[str, Any]:
    """Mixed precision without a threshold: every layer with weights gets this type."""
    options = {"AutoMixprecision": {"ActTargetQuantType": member, "WeightTargetQuantType": member, "OutputIndex": 0}}
    return {key: value for each in (options, *others) for key, value in each.items()}


_SINGLE: dict[str, _Row] = {
    "VINT8": (_MSE, "QInt8", "QInt8", _QDQ, VINT8, {"optimize_model": False}),
    "UINT8_DYNAMIC_QUANT": (_MINMAX, "QUInt8", "QUInt8", _QDQ, {}, {"use_dynamic_quant": True}),
    "U8U8_AAWA": (_PERCENTILE, "QUInt8", "QUInt8", _QDQ, {**_FORCED, "WeightSymmetric": False}, {}),
    "S16S16_MIXED_S8S8": (
        _PERCENTILE, "QInt16", "QInt16", _EXTENDED,
        {**_FORCED, "Percentile": 99.9999, "Int32Bias": False, "Int16Bias": False, **_mixed(QuantType.QInt8)},
        {"include_auto_mp": True},
    ),
    "MATMUL_NBITS": (
        _MINMAX, "QInt8", "QInt8", _QDQ,
        {
            "UseMatMulNBits": True,
            "MatMulNBitsParams": {"GroupSize": 128, "Symmetric": True, "Bits": 4, "AccuracyLevel": 1},
        },
        {},
    ),
}  # fmt: skip
_FLOAT: dict[str, _Row] = {
    "FP16": (_MINMAX, "QFloat16", "QFloat16", _EXTENDED, _FORCED, {}),
    "BF16": (_MINMAX, "QBFloat16", "QBFloat16", _EXTENDED, {**_FORCED, "QuantizeAllOpTypes": True}, {}),
}


_BF16_MIXED = {**_SYMMETRIC, "QuantizeBias": False, "CalibDataSize": 1}
_BLOCK: dict[str, _Row] = {
    "BFP16": (_MINMAX, "QBFP", "QBFP", _EXTENDED, _bfp(16, False), {}),
    "MX4": (_MINMAX, "QBFP", "QBFP", _EXTENDED, _bfp(11, True), {}),
    "MX6": (_MINMAX, "QBFP", "QBFP", _EXTENDED, _bfp(13, True), {}),
    "MX9": (_MINMAX, "QBFP", "QBFP", _EXTENDED, _bfp(16, True), {}),
    "MXFP8E5M2": (_MINMAX, "QMX", "QMX", _EXTENDED, _mx("fp8_e5m2"), {}),
    "MXFP8E4M3": (_MINMAX, "QMX", "QMX", _EXTENDED, _mx("fp8_e4m3"), {}),
    "MXFP6E3M2": (_MINMAX, "QMX", "QMX", _EXTENDED, _mx("fp6_e3m2"), {}),
    "MXFP6E2M3": (_MINMAX, "QMX", "QMX", _EXTENDED, _mx("fp6_e2m3"), {}),
    "MXFP4E2M1": (_MINMAX, "QMX", "QMX", _EXTENDED, _mx("fp4_e2m1"), {}),
    "MXINT8": (_MINMAX, "QMX", "QMX", _EXTENDED, _mx("int8"), {}),
    "BF16_MIXED_BFP16": (
        _MINMAX, "QBFloat16", "QBFloat16", _EXTENDED,
        {**_BF16_MIXED, **_mixed(ExtendedQuantType.QBFP, _bfp(16, False))}, {"include_auto_mp": True},
    ),
    "BF16_MIXED_MXINT8": (
        _MINMAX, "QBFloat16", "QBFloat16", _EXTENDED,
        {**_BF16_MIXED, **_mixed(ExtendedQuantType.QMX, _mx("int8"))}, {"include_auto_mp": True},
    ),
}  # fmt: skip
_MIXED: dict[str, _Row] = {
    "BF16_BFP16": (_MINMAX, "QBFloat16", "QBFP", _EXTENDED, _bfp(16, False), {}),
    "BF16_MXINT8": (_MINMAX, "QBFloat16", "QMX", _EXTENDED, _mx("int8"), {}),
    "MX9_INT8": (_MINMAX, "QBFP", "QInt8", _EXTENDED, _bfp(16, True), {}),
}


def _default_rows() -> dict[str, _Row]:
    """The INT8 and INT16 presets for CNNs and transformers, in their default and accurate forms."""
    rows: dict[str, _Row] = {}
    for bits, quant_format in (("8", _QDQ), ("16", _EXTENDED)):
        types = f"QUInt{bits}", f"QInt{bits}"
        transformer = {"enable_npu_transformer": True}
        tuned = {"include_fast_ft": True}
        accurate = {"Percentile": 99.9999, "FastFinetune": {"OptimAlgorithm": "descent"}}
        rows[f"INT{bits}_CNN_DEFAULT"] = (_MINMAX, *types, quant_format, _FORCED, {})
        rows[f"INT{bits}_TRANSFORMER_DEFAULT"] = (
            _MINMAX, *types, quant_format, {"CalibMovingAverage": True}, transformer,
        )  # fmt: skip
        rows[f"INT{bits}_CNN_ACCURATE"] = (_PERCENTILE, *types, quant_format, {**_FORCED, **accurate}, tuned)
        rows[f"INT{bits}_TRANSFORMER_ACCURATE"] = (
            _PERCENTILE, *types, quant_format, accurate, {**transformer, **tuned},
        )  # fmt: skip
    return rows


def _finetuned(row: _Row, algorithm: str, learning_rate: float) -> _Row:
    """Returns the preset with fast finetuning by AdaRound or AdaQuant."""
    method, activation, weight, quant_format, options, others = row
    finetune = {
        "DataSize": 1000, "FixedSeed": 1705472343, "BatchSize": 2, "NumIterations": 1000, "LearningRate": learning_rate,
        "OptimAlgorithm": algorithm, "OptimDevice": "cpu", "InferDevice": "cpu", "EarlyStop": True,
    }  # fmt: skip
    return (
        method,
        activation,
        weight,
        quant_format,
        {**options, "FastFinetune": finetune},
        {**others, "include_fast_ft": True},
    )


def _all_rows() -> dict[str, _Row]:
    rows = {**_INTEGER, **_SINGLE, **_FLOAT, **_BLOCK, **_MIXED, **_default_rows()}
    for name, row in _INTEGER.items():
        rows[f"{name}_ADAROUND"] = _finetuned(row, "adaround", 0.1)
        rows[f"{name}_ADAQUANT"] = _finetuned(row, "adaquant", 1e-5)
    for name, row in {**_FLOAT, **_BLOCK}.items():
        rows[f"{name}_ADAQUANT"] = _finetuned(row, "adaquant", 1e-5)
    return rows


_ROWS = _all_rows()

#: The names that :func:`get_default_config` accepts.
LEGACY_NAMES = tuple(_ROWS)


def _member(name: str) -> QuantType | ExtendedQuantType:
    return QuantType[name] if name in ("QInt8", "QUInt8") else ExtendedQuantType[name]


def get_default_config(name: str) -> QuantizationConfig:
    """Return Quark's older preset of that name: a fresh object each time, so that changing it changes nothing else.

    Args:
        name: One of the 65 names, in any case.

    Raises:
        ConfigError: there is no such preset.

    Example:
        >>> get_default_config("XINT8").enable_npu_cnn
        True
    """
    row = _ROWS.get(name.upper()) if isinstance(name, str) else None
    if row is None:
        raise ConfigError(
            f"get_default_config: expected a preset of Quark, got {name!r}{did_you_mean(str(name), _ROWS)}"
        )
    method, activation, weight, quant_format, options, others = row
    copied = {key: dict(value) if isinstance(value, dict) else value for key, value in options.items()}
    return QuantizationConfig(
        calibrate_method=method,
        activation_type=_member(activation),
        weight_type=_member(weight),
        quant_format=quant_format,
        extra_options=copied,
        **others,
    )


def get_default_config_mapping() -> dict[str, QuantizationConfig]:
    """Return all of Quark's older presets by name, each a fresh object."""
    return {name: get_default_config(name) for name in LEGACY_NAMES}
