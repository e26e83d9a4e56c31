"""``quark.onnx.operators``."""
