"""``quark.onnx``: what it exports, from quarkfast."""

from typing import Any

from quarkfast.compat.model_quantizer import ModelQuantizer
from quarkfast.config.quark import Config, QConfig, QuantizationConfig, ready_made
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
from quarkfast.ort import get_library_path

__all__ = [
    "AdaQuantConfig",
    "AdaRoundConfig",
    "AlgoConfig",
    "AutoMixprecisionConfig",
    "BiasCorrectionConfig",
    "CLEConfig",
    "Config",
    "GPTQConfig",
    "ModelQuantizer",
    "QConfig",
    "QuantizationConfig",
    "QuarotConfig",
    "SmoothQuantConfig",
    "get_library_path",
]


def __getattr__(name: str) -> Any:
    return ready_made(name)
