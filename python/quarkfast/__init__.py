"""quarkfast: post-training quantization of ONNX models with native kernels, for NPUs and CPUs.

Public names are imported when they are first used, so that ``import quarkfast`` loads no other package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# Not lazily: when the module quarkfast.quantize is first loaded, Python puts the module itself under the package's name
# `quantize`. Loaded here, the function takes its place for good. It costs 25 ms and loads no other package.
from quarkfast.quantize import QuantizedModel, quantize

if TYPE_CHECKING:
    from quarkfast.config import OPTIONS, PRESETS, Scheme, TensorSpec
    from quarkfast.config.quark import (
        Config,
        QConfig,
        QuantizationConfig,
        get_default_config,
        get_default_config_mapping,
    )
    from quarkfast.config.quark.algorithm import (
        AdaQuantConfig,
        AdaRoundConfig,
        AlgoConfig,
        AutoMixprecisionConfig,
        BiasCorrectionConfig,
        CLEConfig,
        GPTQConfig,
        QuarotConfig,
        SmoothQuantConfig,
    )
    from quarkfast.config.quark.data_type import (
        BFP16,
        MX4,
        MX6,
        MX9,
        MXFP4E2M1,
        MXFP6E2M3,
        MXFP6E3M2,
        MXFP8E4M3,
        MXFP8E5M2,
        BFloat16,
        Float16,
        Int8,
        Int16,
        Int32,
        MXInt8,
        UInt8,
        UInt16,
        UInt32,
    )
    from quarkfast.config.quark.enums import (
        CalibMethod,
        CalibrationMethod,
        ExtendedCalibrationMethod,
        ExtendedQuantFormat,
        ExtendedQuantType,
        Int16Method,
        LayerWiseMethod,
        PowerOfTwoMethod,
        QuantFormat,
        QuantGranularity,
        QuantType,
        ScaleType,
        VitisQuantFormat,
        VitisQuantType,
    )
    from quarkfast.config.quark.spec import (
        BFloat16Spec,
        BFP16Spec,
        Float16Spec,
        Int8Spec,
        Int16Spec,
        Int32Spec,
        MX4Spec,
        MX6Spec,
        MX9Spec,
        MXFP4E2M1Spec,
        MXFP6E2M3Spec,
        MXFP6E3M2Spec,
        MXFP8E4M3Spec,
        MXFP8E5M2Spec,
        MXInt8Spec,
        QLayerConfig,
        QTensorConfig,
        UInt8Spec,
        UInt16Spec,
        UInt32Spec,
        XInt8Spec,
    )
    from quarkfast.errors import (
        CalibrationError,
        ConfigError,
        DependencyError,
        ModelError,
        OutputError,
        QuarkfastError,
        UnsupportedError,
    )
    from quarkfast.isa import active_isa, available_isas, num_threads, set_num_threads, use_isa
    from quarkfast.kernels import (
        MatMulNBits,
        Range,
        cast,
        dequantize_linear,
        fake_quantize_linear,
        pack_codes,
        pack_matmul_nbits,
        quantize_linear,
        reduce_range,
        round_trip,
        unpack_codes,
        unpack_matmul_nbits,
    )
    from quarkfast.model_quantizer import ModelQuantizer
    from quarkfast.ort import get_library_path, register
    from quarkfast.summary import Summary

__all__ = [
    "BFP16",
    "MX4",
    "MX6",
    "MX9",
    "MXFP4E2M1",
    "MXFP6E2M3",
    "MXFP6E3M2",
    "MXFP8E4M3",
    "MXFP8E5M2",
    "OPTIONS",
    "PRESETS",
    "AdaQuantConfig",
    "AdaRoundConfig",
    "AlgoConfig",
    "AutoMixprecisionConfig",
    "BFP16Spec",
    "BFloat16",
    "BFloat16Spec",
    "BiasCorrectionConfig",
    "CLEConfig",
    "CalibMethod",
    "CalibrationError",
    "CalibrationMethod",
    "Config",
    "ConfigError",
    "DependencyError",
    "ExtendedCalibrationMethod",
    "ExtendedQuantFormat",
    "ExtendedQuantType",
    "Float16",
    "Float16Spec",
    "GPTQConfig",
    "Int8",
    "Int8Spec",
    "Int16",
    "Int16Method",
    "Int16Spec",
    "Int32",
    "Int32Spec",
    "LayerWiseMethod",
    "MX4Spec",
    "MX6Spec",
    "MX9Spec",
    "MXFP4E2M1Spec",
    "MXFP6E2M3Spec",
    "MXFP6E3M2Spec",
    "MXFP8E4M3Spec",
    "MXFP8E5M2Spec",
    "MXInt8",
    "MXInt8Spec",
    "MatMulNBits",
    "ModelError",
    "ModelQuantizer",
    "OutputError",
    "PowerOfTwoMethod",
    "QConfig",
    "QLayerConfig",
    "QTensorConfig",
    "QuantFormat",
    "QuantGranularity",
    "QuantType",
    "QuantizationConfig",
    "QuantizedModel",
    "QuarkfastError",
    "QuarotConfig",
    "Range",
    "ScaleType",
    "Scheme",
    "SmoothQuantConfig",
    "Summary",
    "TensorSpec",
    "UInt8",
    "UInt8Spec",
    "UInt16",
    "UInt16Spec",
    "UInt32",
    "UInt32Spec",
    "UnsupportedError",
    "VitisQuantFormat",
    "VitisQuantType",
    "XInt8Spec",
    "__version__",
    "active_isa",
    "available_isas",
    "cast",
    "dequantize_linear",
    "fake_quantize_linear",
    "get_default_config",
    "get_default_config_mapping",
    "get_library_path",
    "num_threads",
    "pack_codes",
    "pack_matmul_nbits",
    "quantize",
    "quantize_linear",
    "reduce_range",
    "register",
    "round_trip",
    "set_num_threads",
    "unpack_codes",
    "unpack_matmul_nbits",
    "use_isa",
]

# Where each public name lives.
_HOMES = {
    "config.quark": ["Config", "QConfig", "QuantizationConfig", "get_default_config", "get_default_config_mapping"],
    "config.quark.algorithm": [
        "AdaQuantConfig",
        "AdaRoundConfig",
        "AlgoConfig",
        "AutoMixprecisionConfig",
        "BiasCorrectionConfig",
        "CLEConfig",
        "GPTQConfig",
        "QuarotConfig",
        "SmoothQuantConfig",
    ],
    "config.quark.data_type": [
        "BFP16",
        "BFloat16",
        "Float16",
        "Int8",
        "Int16",
        "Int32",
        "MX4",
        "MX6",
        "MX9",
        "MXFP4E2M1",
        "MXFP6E2M3",
        "MXFP6E3M2",
        "MXFP8E4M3",
        "MXFP8E5M2",
        "MXInt8",
        "UInt8",
        "UInt16",
        "UInt32",
    ],
    "config.quark.enums": [
        "CalibMethod",
        "CalibrationMethod",
        "ExtendedCalibrationMethod",
        "ExtendedQuantFormat",
        "ExtendedQuantType",
        "Int16Method",
        "LayerWiseMethod",
        "PowerOfTwoMethod",
        "QuantFormat",
        "QuantGranularity",
        "QuantType",
        "ScaleType",
        "VitisQuantFormat",
        "VitisQuantType",
    ],
    "config.quark.spec": [
        "BFP16Spec",
        "BFloat16Spec",
        "Float16Spec",
        "Int8Spec",
        "Int16Spec",
        "Int32Spec",
        "MX4Spec",
        "MX6Spec",
        "MX9Spec",
        "MXFP4E2M1Spec",
        "MXFP6E2M3Spec",
        "MXFP6E3M2Spec",
        "MXFP8E4M3Spec",
        "MXFP8E5M2Spec",
        "MXInt8Spec",
        "QLayerConfig",
        "QTensorConfig",
        "UInt8Spec",
        "UInt16Spec",
        "UInt32Spec",
        "XInt8Spec",
    ],
    "model_quantizer": ["ModelQuantizer"],
    "config": ["OPTIONS", "PRESETS", "Scheme", "TensorSpec"],
    "summary": ["Summary"],
    "errors": [
        "CalibrationError",
        "ConfigError",
        "DependencyError",
        "ModelError",
        "OutputError",
        "QuarkfastError",
        "UnsupportedError",
    ],
    "isa": ["active_isa", "available_isas", "num_threads", "set_num_threads", "use_isa"],
    "kernels": [
        "MatMulNBits",
        "Range",
        "cast",
        "dequantize_linear",
        "fake_quantize_linear",
        "pack_codes",
        "pack_matmul_nbits",
        "quantize_linear",
        "reduce_range",
        "round_trip",
        "unpack_codes",
        "unpack_matmul_nbits",
    ],
    "ort": ["get_library_path", "register"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("quarkfast")
        except PackageNotFoundError:
            return "0+source"  # a source tree on sys.path, not installed
    if name.endswith("_QCONFIG"):
        from quarkfast.config.quark import ready_made

        return ready_made(name)  # a fresh object each time, so that changing it changes nothing for others
    if name not in _HOME_OF:
        raise AttributeError(f"module 'quarkfast' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"quarkfast.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
