"""``quark.onnx.quantization.config.data_type``."""

from quarkfast.config.quark.data_type import *  # noqa: F403
