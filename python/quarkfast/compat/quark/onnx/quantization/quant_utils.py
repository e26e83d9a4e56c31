"""``quark.onnx.quantization.quant_utils``."""

from quarkfast.config.quark.enums import *  # noqa: F403
