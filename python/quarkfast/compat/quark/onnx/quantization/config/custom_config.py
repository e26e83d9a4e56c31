"""``quark.onnx.quantization.config.custom_config``."""

from quarkfast.config.quark import get_default_config, get_default_config_mapping

__all__ = ["get_default_config", "get_default_config_mapping"]
