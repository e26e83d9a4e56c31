"""``quark.onnx.quantization.config``."""

from quarkfast.config.quark import (
    Config,
    QConfig,
    QuantizationConfig,
    get_default_config,
    get_default_config_mapping,
)
from quarkfast.config.quark.spec import QLayerConfig, QTensorConfig

DefaultConfigMapping = get_default_config_mapping()

__all__ = [
    "Config",
    "DefaultConfigMapping",
    "QConfig",
    "QLayerConfig",
    "QTensorConfig",
    "QuantizationConfig",
    "get_default_config",
    "get_default_config_mapping",
]
