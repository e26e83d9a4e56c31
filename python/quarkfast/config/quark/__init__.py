"""Quark's vocabulary: its enumerations, specs and both generations of its configuration, which end in a scheme."""

from quarkfast.config.quark.legacy import Config, QuantizationConfig, get_default_config, get_default_config_mapping
from quarkfast.config.quark.qconfig import QConfig, ready_made
from quarkfast.config.quark.translate import scheme_of, with_algorithms

__all__ = [
    "Config",
    "QConfig",
    "QuantizationConfig",
    "get_default_config",
    "get_default_config_mapping",
    "ready_made",
    "scheme_of",
    "with_algorithms",
]
