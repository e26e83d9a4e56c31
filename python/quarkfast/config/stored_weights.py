"""Which schemes of weights alone can be written."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from quarkfast.config.scheme import Scheme
from quarkfast.config.spec import TensorSpec
from quarkfast.errors import ConfigError
from quarkfast.formats import FLOAT32, Format, find, weight_formats

__all__ = ["check_stored_weights"]

_FITS: Mapping[str, Callable[[Format], bool]] = {
    "qdq": lambda row: row.is_integer and row.bits <= 8,
    "nbits": lambda row: row.is_integer and row.bits in (4, 8),
    "cast": lambda row: row.may_be_scaled,
}
# What says something about activations, or about how a pair of nodes behind a weight is spelled.
_MEANINGLESS = ("keep_float_weights", "packed_weights", "clip_bfloat16", "layers", "tensors")


def check_stored_weights(scheme: Scheme) -> None:
    """Makes sure that a scheme with float32 activations describes weights that can be stored.

    Raises:
        ConfigError: If it does not.
    """
    weight, fits = scheme.weight, _FITS.get(scheme.encoding)
    if fits is None:
        raise ConfigError(f"{scheme.name}: expected activations of integers, got float32; leave activation_type out")
    known = [name for name in weight_formats() if fits(find(name))]
    if weight.dtype not in known:
        raise ConfigError(
            f"weight_type: expected {', '.join(known[:-1])} or {known[-1]} for {scheme.name}, got {weight.dtype}"
        )
    if scheme.activation != TensorSpec(FLOAT32.name):
        raise ConfigError(f"{scheme.name}: expected no options of activations, which stay as they are; leave them out")
    if scheme.layers or scheme.tensors:
        raise ConfigError(f"{scheme.name}: expected one type for all weights, got layers or tensors with their own")
    for name in _MEANINGLESS:
        if getattr(scheme, name):
            raise ConfigError(f"{name}: expected a preset that quantizes activations, got {scheme.name}; leave it out")
    if weight.scaled or weight.reduce_range or weight.scale != "float32" or weight.method != "minmax":
        got = (
            f"method {weight.method}, {weight.scale} scales, scaled={weight.scaled}, reduce_range={weight.reduce_range}"
        )
        raise ConfigError(f"{scheme.name}: expected weights with float32 scales from their extremes, got {got}")
    if scheme.encoding == "cast" and not (weight.symmetric and weight.granularity == "tensor"):
        raise ConfigError(
            f"{scheme.name}: expected {weight.dtype} without scales, got one a {weight.granularity}; leave it out"
        )
    if scheme.encoding == "nbits" and weight.granularity != "group":
        raise ConfigError(
            f"{scheme.name}: expected groups of weights, got one scale a {weight.granularity}; use INT4_WO"
        )
