"""Configuration: what to quantize and how, as frozen data. Needs no model, no onnx and no onnxruntime."""

from quarkfast.config.files import load_config
from quarkfast.config.options import OPTIONS, Option, apply_options, resolve
from quarkfast.config.patterns import match_names
from quarkfast.config.presets import PRESETS, find_preset
from quarkfast.config.rules import BiasKind, Change, LayerRule, TensorRule
from quarkfast.config.scheme import Encoding, Scheme
from quarkfast.config.spec import Granularity, ScaleKind, TensorSpec
from quarkfast.config.types import takes_int32_bias

__all__ = [
    "OPTIONS",
    "PRESETS",
    "BiasKind",
    "Change",
    "Encoding",
    "Granularity",
    "LayerRule",
    "Option",
    "ScaleKind",
    "Scheme",
    "TensorRule",
    "TensorSpec",
    "apply_options",
    "find_preset",
    "load_config",
    "match_names",
    "resolve",
    "takes_int32_bias",
]
