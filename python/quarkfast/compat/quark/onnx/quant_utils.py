"""``quark.onnx.quant_utils``: enumerations, where earlier versions of Quark have them."""

from quarkfast.config.quark.enums import *  # noqa: F403
