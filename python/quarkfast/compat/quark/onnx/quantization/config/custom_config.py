"""``quark.onnx.quantization.config.custom_config``: ready-made configurations, a fresh object on each access."""

from typing import Any

from quarkfast.config.quark import QuantizationConfig, get_default_config, get_default_config_mapping, ready_made
from quarkfast.config.quark.legacy import LEGACY_NAMES

DefaultConfigMapping = get_default_config_mapping()

__all__ = ["DefaultConfigMapping", "QuantizationConfig", "get_default_config", "get_default_config_mapping"]

# Settings of fast finetuning -> a configuration that has them.
_FINETUNING = {"DEFAULT_ADAROUND_PARAMS": "XINT8_ADAROUND", "DEFAULT_ADAQUANT_PARAMS": "XINT8_ADAQUANT"}


def __getattr__(name: str) -> Any:
    if name in _FINETUNING:
        return get_default_config(_FINETUNING[name]).extra_options["FastFinetune"]
    base = name.removesuffix("_CONFIG")
    return get_default_config(base) if base != name and base in LEGACY_NAMES else ready_made(name)
