"""``quark.onnx.quantization.config.legacy``."""

from quarkfast.config.quark import QuantizationConfig

__all__ = ["QuantizationConfig"]
