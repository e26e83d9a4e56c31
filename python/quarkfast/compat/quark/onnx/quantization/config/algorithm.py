"""``quark.onnx.quantization.config.algorithm``."""

from quarkfast.config.quark.algorithm import *  # noqa: F403
