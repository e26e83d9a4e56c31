"""``quark.onnx.quantization``."""
