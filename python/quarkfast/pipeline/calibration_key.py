"""What a calibration belongs to: a hash of the model, and of what rewrites it in floats."""

from __future__ import annotations

import dataclasses
import hashlib
import json

from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.graph.fingerprint import fingerprint

__all__ = ["NEUTRAL", "calibration_key"]

# Fields of a scheme that leave the float model, and with it every activation, as it is. Any other field changes the
# key, so that one added later cannot let old statistics pass for new ones.
NEUTRAL = (
    *("name", "target", "activation", "weight", "bias", "encoding", "keep_float_weights", "force_pass_through"),
    *("clip_bfloat16", "shares", "packed_weights", "block_rounding", "portable", "rounding", "rounding_options"),
    *("bias_correction", "output_bias_correction", "fuse", "strict", "align_scales", "search_ranges", "constraints"),
    *("smooth_alpha", "shift_activations"),
    *("shapes", "opset", "contrib_pairs", "vaiml", "unshare_constants"),
    *("op_types", "include", "exclude", "exclude_op_types", "layers", "tensors", "samples", "batch_size", "preprocess"),
    *("extra_op_types", "input_nodes", "output_nodes", "exclude_outputs", "exclude_output_types", "mixed_precision"),
    "policy",
)

# But for these thresholds.
_REWRITING = ("equalization_", "rotation_")


def calibration_key(model: ir.Model, scheme: Scheme) -> str:
    """Returns a hash of what decides the values of activations: the model, and options that rewrite it in floats."""
    settings = {"factors": scheme.factors} | {
        field.name: getattr(scheme, field.name)
        for field in dataclasses.fields(scheme)
        if field.name not in NEUTRAL and getattr(scheme, field.name) != field.default
    }
    settings |= {name: each for name, each in scheme.policy.changes().items() if name.startswith(_REWRITING)}
    text = fingerprint(model) + json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
