"""The presets by name, frozen, and which schemes of weights alone can be written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from quarkfast.config.scheme import Scheme
from quarkfast.config.spec import TensorSpec
from quarkfast.errors import ConfigError, did_you_mean
from quarkfast.formats import FLOAT32, Format, find, weight_formats
from quarkfast.formats.block import BLOCK_FORMATS

__all__ = ["PRESETS", "check_stored_weights", "default_target", "find_preset", "stored_forms"]

_INT8 = TensorSpec("int8")
_INT8_WEIGHT = TensorSpec("int8", method="minmse")
_INT16 = TensorSpec("int16")
_UINT8 = TensorSpec("uint8", symmetric=False)
_BFLOAT16 = TensorSpec("bfloat16")
_FLOAT16 = TensorSpec("float16")
_BLOCKS = {name: TensorSpec(name) for name in BLOCK_FORMATS}
_XINT8 = TensorSpec("int8", scale="power_of_two", method="minmse")
_FLOAT32 = TensorSpec("float32")
_INT8_CHANNEL = TensorSpec("int8", granularity="channel")
_INT4_GROUP = TensorSpec("int4", granularity="group")

PRESETS: Mapping[str, Scheme] = MappingProxyType(
    {
        scheme.name: scheme
        for scheme in (
            Scheme("A8W8", "ryzenai-a8w8", _INT8, _INT8_WEIGHT, force_pass_through=True, equalize=True),
            Scheme("A16W8", "ryzenai-a8w8", _INT16, _INT8_WEIGHT, force_pass_through=True, equalize=True),
            Scheme("U8S8", "ort-cpu", _UINT8, _INT8_WEIGHT, equalize=True),
            Scheme("DYNAMIC", "ort-dynamic", _UINT8, _INT8_CHANNEL, bias="float", encoding="dynamic", equalize=True),
            Scheme("XINT8", "ryzenai-xint8", _XINT8, _XINT8, bias="weight", force_pass_through=True, equalize=True),
            Scheme("FP16", "ryzenai-bf16", _FLOAT16, _FLOAT16, bias="weight", force_pass_through=True),
            Scheme("BF16", "ryzenai-bf16", _BFLOAT16, _BFLOAT16, bias="weight", force_pass_through=True),
            Scheme("BFP16", "ryzenai-bf16", _BLOCKS["bfp16"], _BLOCKS["bfp16"], bias="weight", equalize=True),
            *(
                Scheme(name.upper().replace("_", ""), "dot-products", spec, spec, bias="float", equalize=True)
                for name, spec in _BLOCKS.items()
                if BLOCK_FORMATS[name].operands_only
            ),
            Scheme("INT8_WO", "ort-cpu", _FLOAT32, _INT8_CHANNEL, bias="float"),
            Scheme("INT4_WO", "ort-cpu", _FLOAT32, _INT4_GROUP, bias="float"),
            Scheme("MATMUL_NBITS", "ort-cpu", _FLOAT32, _INT4_GROUP, bias="float", encoding="nbits"),
            Scheme("BF16_WO", "ort-cpu", _FLOAT32, _BFLOAT16, bias="weight", encoding="cast"),
            Scheme("FP16_WO", "ort-cpu", _FLOAT32, _FLOAT16, bias="weight", encoding="cast"),
        )
    }
)
"""Name -> scheme. Symmetric int8 and int16 run on Ryzen AI's NPU; U8S8 is what ONNX Runtime fuses on CPUs; MX formats
round the operands of products; ``_WO`` and MATMUL_NBITS store weights alone and leave activations as they are."""


def default_target(activation: TensorSpec) -> str:
    """Returns the name of the target for activations of a type, where nothing else decides.

    BFP16 is a type of the NPU's, for every tensor as bfloat16 is; MX formats are defined for operands of products.

    Example:
        >>> default_target(TensorSpec("mx9")), default_target(TensorSpec("int16"))
        ('dot-products', 'ryzenai-a8w8')
    """
    if activation.format.is_integer:
        return "ryzenai-a8w8"
    return "dot-products" if activation.format.operands_only else "ryzenai-bf16"


def find_preset(name: str) -> Scheme:
    """Returns the preset called `name`, in any case.

    Raises:
        ConfigError: If there is no such preset.

    Example:
        >>> find_preset("u8s8").target
        'ort-cpu'
    """
    scheme = PRESETS.get(name.upper())
    if scheme is None:
        known = ", ".join(PRESETS)
        raise ConfigError(f"preset: expected one of {known}, got {name!r}{did_you_mean(name, PRESETS)}")
    return scheme


_FITS: Mapping[str, Callable[[Format], bool]] = {
    "qdq": lambda row: row.is_integer and row.bits <= 8,
    "nbits": lambda row: row.is_integer and row.bits in (4, 8),
    "cast": lambda row: row.may_be_scaled,
}
# What says something about activations, or about how a pair of nodes behind a weight is spelled.
_MEANINGLESS = ("keep_float_weights", "packed_weights", "clip_bfloat16")


def stored_forms(scheme: Scheme) -> tuple[TensorSpec, ...]:
    """Returns the form of weights and, behind it, those that single layers and tensors have in its place."""
    changes = [rule.weight for rule in scheme.layers if rule.weight is not None]
    changes += [own.change for own in scheme.tensors]
    return (scheme.weight, *(change.apply(scheme.weight) for change in changes))


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
    _check_rules(scheme, known)
    for name in _MEANINGLESS:
        if getattr(scheme, name):
            raise ConfigError(f"{name}: expected a preset that quantizes activations, got {scheme.name}; leave it out")
    for spec in stored_forms(scheme):
        if spec.scaled or spec.reduce_range or spec.scale != "float32" or spec.method != "minmax":
            got = f"method {spec.method}, {spec.scale} scales, scaled={spec.scaled}, reduce_range={spec.reduce_range}"
            raise ConfigError(f"{scheme.name}: expected weights with float32 scales from their extremes, got {got}")
    if scheme.encoding == "cast" and not (weight.symmetric and weight.granularity == "tensor"):
        raise ConfigError(
            f"{scheme.name}: expected {weight.dtype} without scales, got one a {weight.granularity}; leave it out"
        )
    if scheme.encoding == "nbits" and weight.granularity != "group":
        raise ConfigError(
            f"{scheme.name}: expected groups of weights, got one scale a {weight.granularity}; use INT4_WO"
        )


def _check_rules(scheme: Scheme, known: Sequence[str]) -> None:
    """Makes sure that layers and tensors have something of their own that weights alone can have."""
    if scheme.encoding == "cast" and (scheme.layers or scheme.tensors):
        raise ConfigError(f"{scheme.name}: expected one type for all weights, got layers or tensors with their own")
    for rule in scheme.layers:
        others = [name for name in ("activation", "output", "bias") if getattr(rule, name) is not None]
        if others:
            raise ConfigError(f"layers: expected weight alone in {scheme.name}, which leaves the rest, got {others[0]}")
    for own in scheme.tensors:
        if own.range is not None or own.scale is not None or own.axis is not None:
            raise ConfigError(
                f"tensors: {own.tensor}: expected the form of a weight in {scheme.name}, whose range it has, got a "
                "range, a scale or an axis"
            )
    # In place of codes single weights may have 16-bit floats, or stay as they are.
    taken = [*known, *(name for name in weight_formats() if find(name).may_be_scaled), FLOAT32.name]
    for spec in stored_forms(scheme)[1:]:
        if spec.dtype not in taken:
            raise ConfigError(
                f"layers or tensors: dtype: expected one of {', '.join(taken)} in {scheme.name}, got {spec.dtype}"
            )
        packed = scheme.encoding == "nbits" and spec.format.is_integer
        if packed and spec.granularity != "group":
            raise ConfigError(
                f"layers or tensors: granularity: expected groups in {scheme.name}, got one scale a {spec.granularity}"
            )
        if packed and (spec.group_size < 16 or spec.group_size & (spec.group_size - 1)):
            raise ConfigError(
                f"layers or tensors: group_size: expected a power of two from 16 on in {scheme.name}, "
                f"got {spec.group_size}"
            )
