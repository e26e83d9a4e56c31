"""``quark.onnx.operators.custom_ops``."""

from quarkfast.ort import get_library_path

__all__ = ["get_library_path"]
