"""``quark.onnx.quantization.config.spec``."""

from quarkfast.config.quark.spec import *  # noqa: F403
