"""``quark.onnx.tools``: each a command, ``python -m quarkfast.compat.quark.onnx.tools.NAME``."""
