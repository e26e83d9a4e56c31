"""Configuration: what to quantize and how, as frozen data. Needs no model, no onnx and no onnxruntime."""

from quarkfast.config.options import OPTIONS, Option, apply_options, resolve
from quarkfast.config.patterns import match_names
from quarkfast.config.presets import PRESETS, find_preset
from quarkfast.config.scheme import BiasKind, Encoding, Scheme
from quarkfast.config.spec import Granularity, Method, ScaleKind, TensorSpec

__all__ = [
    "OPTIONS",
    "PRESETS",
    "BiasKind",
    "Encoding",
    "Granularity",
    "Method",
    "Option",
    "ScaleKind",
    "Scheme",
    "TensorSpec",
    "apply_options",
    "find_preset",
    "match_names",
    "resolve",
]
