"""``quark.onnx``: what it exports, from quarkfast."""

from typing import Any

from quarkfast.compat.model_quantizer import ModelQuantizer
from quarkfast.compat.quark.onnx.entry_points import quantize_dynamic, quantize_static
from quarkfast.compat.quark.onnx.readers import (
    CachedDataReader,
    CalibrationDataReader,
    PathDataReader,
    RandomDataReader,
)
from quarkfast.config.quark import Config, QConfig, QuantizationConfig, data_type, enums, ready_made, spec
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
from quarkfast.config.quark.data_type import *  # noqa: F403
from quarkfast.config.quark.enums import *  # noqa: F403
from quarkfast.config.quark.spec import *  # noqa: F403
from quarkfast.errors import UnsupportedError
from quarkfast.ort import get_library_path

__all__ = [
    "AdaQuantConfig",
    "AdaRoundConfig",
    "AlgoConfig",
    "AutoMixprecisionConfig",
    "BiasCorrectionConfig",
    "CLEConfig",
    "CachedDataReader",
    "CalibrationDataReader",
    "Config",
    "GPTQConfig",
    "ModelQuantizer",
    "PathDataReader",
    "QConfig",
    "QuantizationConfig",
    "QuarotConfig",
    "RandomDataReader",
    "SmoothQuantConfig",
    "get_library_path",
    "quantize_dynamic",
    "quantize_static",
    *data_type.__all__,
    *enums.__all__,
    *spec.__all__,
]

# The domain of Quark's operators, and its version.
_COP_DOMAIN, _COP_VERSION = "com.amd.quark", 1

# What else Quark exports -> what does the same here.
_OTHERS = {
    **dict.fromkeys(
        ("AutoSearch", "AutoSearchPro", "SearchSpace", "generate_all_configs", "get_auto_search_config"),
        "quarkfast.quantize with min_sqnr or max_drop tries levers",
    ),
    **dict.fromkeys(
        ("create_calibrator_float_scale", "create_calibrator_power_of_two", "write_calibration_table"),
        "quarkfast.calibrate gathers statistics",
    ),
    **dict.fromkeys(("CalibraterBase", "MinMaxCalibrater"), "quarkfast.calibrate gathers statistics"),
    "dump_model": "quarkfast.compare_models compares tensors",
    "VitisExtendedQuantizer": "quarkfast.ModelQuantizer quantizes (Quark 0.13 exports the name and lacks it too)",
}


def __getattr__(name: str) -> Any:
    if name in _OTHERS:
        raise UnsupportedError(f"quark.onnx: expected a name that quarkfast has, got {name!r}; {_OTHERS[name]}")
    return ready_made(name)
