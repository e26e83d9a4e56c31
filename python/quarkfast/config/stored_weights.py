"""Which schemes of weights alone can be written."""

from __future__ import annotations

from quarkfast.config.scheme import Scheme
from quarkfast.config.spec import TensorSpec
from quarkfast.errors import ConfigError

__all__ = ["check_stored_weights"]

_TYPES = {
    "qdq": ("int4", "uint4", "int8", "uint8"),
    "nbits": ("int4", "uint4"),
    "cast": ("bfloat16", "float16"),
}
# What says something about activations, or about how a pair of nodes behind a weight is spelled.
_MEANINGLESS = ("keep_float_weights", "packed_weights", "clip_bfloat16", "layers", "tensors")


def check_stored_weights(scheme: Scheme) -> None:
    """Makes sure that a scheme with float32 activations describes weights that can be stored.

    Raises:
        ConfigError: If it does not.
    """
    weight, known = scheme.weight, _TYPES.get(scheme.encoding)
    if known is None:
        raise ConfigError(f"{scheme.name}: expected activations of integers, got float32; leave activation_type out")
    if weight.dtype not in known:
        raise ConfigError(
            f"weight_type: expected {', '.join(known[:-1])} or {known[-1]} for {scheme.name}, got {weight.dtype}"
        )
    if scheme.activation != TensorSpec("float32"):
        raise ConfigError(f"{scheme.name}: expected no options of activations, which stay as they are; leave them out")
    if scheme.layers or scheme.tensors:
        raise ConfigError(f"{scheme.name}: expected one type for all weights, got layers or tensors with their own")
    for name in _MEANINGLESS:
        if getattr(scheme, name):
            raise ConfigError(f"{name}: expected a preset that quantizes activations, got {scheme.name}; leave it out")
    if weight.scaled or weight.reduce_range or weight.scale != "float32" or weight.method != "minmax":
        raise ConfigError(f"{scheme.name}: expected weights with float32 scales from their extremes, got {weight}")
    if scheme.encoding == "cast" and not (weight.symmetric and weight.granularity == "tensor"):
        raise ConfigError(f"{scheme.name}: expected {weight.dtype} without scales, got {weight}; leave the option out")
    if scheme.encoding == "nbits" and weight.granularity != "group":
        raise ConfigError(
            f"{scheme.name}: expected groups of weights, got one scale a {weight.granularity}; use INT4_WO"
        )
