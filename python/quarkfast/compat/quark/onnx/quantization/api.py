"""``quark.onnx.quantization.api``."""

from quarkfast.compat.model_quantizer import ModelQuantizer

__all__ = ["ModelQuantizer"]
