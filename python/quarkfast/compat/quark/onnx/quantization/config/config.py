"""``quark.onnx.quantization.config.config``."""

from quarkfast.config.quark import Config, QConfig, QuantizationConfig

__all__ = ["Config", "QConfig", "QuantizationConfig"]
