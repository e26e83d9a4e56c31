"""Configuration: what to quantize and how, as frozen data. Needs no model, no onnx and no onnxruntime."""

from quarkfast.config.files import load_config, match_names
from quarkfast.config.options import GROUPS, OPTIONS, Option, apply_options, scheme_from
from quarkfast.config.policy import POLICY, Policy, Threshold, thresholds
from quarkfast.config.presets import PRESETS, find_preset, stored_forms
from quarkfast.config.rules import BiasKind, Change, LayerRule, TensorRule
from quarkfast.config.scheme import Encoding, Scheme, Shares
from quarkfast.config.spec import Granularity, ScaleKind, TensorSpec
from quarkfast.config.types import check_types, default_bias, takes_int32_bias

__all__ = [
    "GROUPS",
    "OPTIONS",
    "POLICY",
    "PRESETS",
    "BiasKind",
    "Change",
    "Encoding",
    "Granularity",
    "LayerRule",
    "Option",
    "Policy",
    "ScaleKind",
    "Scheme",
    "Shares",
    "TensorRule",
    "TensorSpec",
    "Threshold",
    "apply_options",
    "check_types",
    "default_bias",
    "find_preset",
    "load_config",
    "match_names",
    "scheme_from",
    "stored_forms",
    "takes_int32_bias",
    "thresholds",
]
