"""What becomes of a weight: presets as rows, of a type of element, a granularity and a kind of scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from quarkfast.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ELEMENTS", "METHODS", "PRESETS", "Element", "WeightScheme", "fit_group", "scheme_of"]

Granularity = Literal["tensor", "channel", "group", "block"]
#: How the range of a weight is found.
METHODS = ("minmax", "percentile", "mse")


@dataclass(frozen=True)
class Element:
    """A type that codes of weights have.

    Attributes:
        name: What Quark calls it.
        bits: Bits of a code.
        low: Least value, of a code for integers.
        high: Greatest value.
        storage: The NumPy or ml_dtypes type that holds one code.
        exponent: Of the greatest power of two of a float; 0 for integers, as microscaling has it.
        mantissa: Mantissa bits of a float.
    """

    name: str
    bits: int
    low: float
    high: float
    storage: str
    exponent: int = 0
    mantissa: int = 0

    @property
    def is_integer(self) -> bool:
        """Whether codes are integers."""
        return "int" in self.name

    @property
    def signed(self) -> bool:
        """Whether codes are of either sign."""
        return self.low < 0

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The dtype that holds one code."""
        import ml_dtypes
        import numpy as np

        return np.dtype(getattr(ml_dtypes, self.storage, self.storage))


ELEMENTS: Mapping[str, Element] = MappingProxyType(
    {
        row.name: row
        for row in (
            Element("int8", 8, -128, 127, "int8"),
            Element("int4", 4, -8, 7, "int8"),
            Element("int3", 3, -4, 3, "int8"),
            Element("int2", 2, -2, 1, "int8"),
            Element("uint8", 8, 0, 255, "uint8"),
            Element("uint4", 4, 0, 15, "uint8"),
            Element("uint3", 3, 0, 7, "uint8"),
            Element("uint2", 2, 0, 3, "uint8"),
            Element("fp8_e4m3", 8, -448, 448, "float8_e4m3fn", 8, 3),
            Element("fp8_e5m2", 8, -57344, 57344, "float8_e5m2", 15, 2),
            Element("fp6_e3m2", 6, -28, 28, "float6_e3m2fn", 4, 2),
            Element("fp6_e2m3", 6, -7.5, 7.5, "float6_e2m3fn", 2, 3),
            Element("fp4", 4, -6, 6, "float4_e2m1fn", 2, 1),
            Element("float16", 16, -65504, 65504, "float16", 15, 10),
            Element("bfloat16", 16, -3.3895313892515355e38, 3.3895313892515355e38, "bfloat16", 127, 7),
        )
    }
)


@dataclass(frozen=True)
class WeightScheme:
    """How weights are quantized, and what a runtime does with activations.

    Attributes:
        name: Of the preset.
        weight: Name of the element, a row of `ELEMENTS`.
        granularity: What shares a scale: the tensor, an output channel, a group of a channel's weights, a square block.
        group_size: Weights of a group, or rows and columns of a block.
        scale: ``"float"``; ``"e8m0"``, powers of two; ``"e4m3"`` of groups, below one float32 scale for the tensor.
        activations: Element of activations that a runtime quantizes when it runs, or "" for float ones.
        activation_granularity: What of the activations shares a scale: the tensor, a token or a group.
        activation_group: Values of a group of activations.
    """

    name: str
    weight: str
    granularity: Granularity = "tensor"
    group_size: int = 0
    scale: Literal["float", "e8m0", "e4m3", "none"] = "float"
    activations: str = ""
    activation_granularity: Literal["tensor", "token", "group"] = "token"
    activation_group: int = 0

    @property
    def element(self) -> Element:
        """The element of weights."""
        return ELEMENTS[self.weight]

    @property
    def symmetric(self) -> bool:
        """Whether zero is a code in the middle, so that there is no zero point."""
        return self.element.signed

    @property
    def shares_scale(self) -> bool:
        """Whether layers that a runtime joins must have one scale."""
        return (self.granularity == "tensor" and self.scale == "float") or self.scale == "e4m3"


def _integers() -> list[WeightScheme]:
    rows = []
    for weight in (name for name, element in ELEMENTS.items() if element.is_integer):
        rows += [WeightScheme(f"{weight}_wo_{size}", weight, "group", size) for size in (32, 64, 128)]
        rows.append(WeightScheme(f"{weight}_wo_per_channel", weight, "channel"))
    return rows


def _microscaled(name: str, weight: str, activations: str = "") -> WeightScheme:
    return WeightScheme(name, weight, "group", 32, "e8m0", activations, "group", 32 if activations else 0)


#: Name -> scheme. Names that AMD Quark has mean what they mean there; activations are always quantized as they come.
PRESETS: Mapping[str, WeightScheme] = MappingProxyType(
    {
        row.name: row
        for row in (
            *_integers(),
            WeightScheme("int4_wa_64", "int4", "group", 64, "float", "int4", "group", 64),
            WeightScheme("int8", "int8", "channel", 0, "float", "int8"),
            WeightScheme("fp8", "fp8_e4m3", "tensor", 0, "float", "fp8_e4m3", "tensor"),
            WeightScheme("fp8_e5m2", "fp8_e5m2", "tensor", 0, "float", "fp8_e5m2", "tensor"),
            WeightScheme("ptpc_fp8", "fp8_e4m3", "channel", 0, "float", "fp8_e4m3"),
            WeightScheme("fp8_block", "fp8_e4m3", "block", 128, "float", "fp8_e4m3", "group", 128),
            _microscaled("mxfp4", "fp4", "fp4"),
            _microscaled("mxfp4_weight_only", "fp4"),
            _microscaled("mxfp4_mxfp6_e2m3", "fp4", "fp6_e2m3"),
            WeightScheme("mxfp4_fp8", "fp4", "group", 32, "e8m0", "fp8_e4m3", "tensor"),
            _microscaled("mxfp6_e3m2", "fp6_e3m2", "fp6_e3m2"),
            _microscaled("mxfp6_e2m3", "fp6_e2m3", "fp6_e2m3"),
            _microscaled("mxfp8", "fp8_e4m3", "fp8_e4m3"),
            _microscaled("mxint8", "int8", "int8"),
            WeightScheme("nvfp4", "fp4", "group", 16, "e4m3"),
            WeightScheme("float16", "float16", scale="none"),
            WeightScheme("bfloat16", "bfloat16", scale="none"),
        )
    }
)


def scheme_of(preset: str) -> WeightScheme:
    """The scheme of a preset, whatever the case of its name.

    Raises:
        ConfigError: If there is none of that name.

    Example:
        >>> scheme_of("INT4_WO_64").group_size
        64
    """
    found = PRESETS.get(preset.lower())
    if found is None:
        raise ConfigError(
            f"preset: expected one of {', '.join(PRESETS)}, got {preset!r}{did_you_mean(preset, PRESETS)}"
        )
    return found


def fit_group(scheme: WeightScheme, columns: Sequence[int], group_size: int | Literal["auto"] | None) -> WeightScheme:
    """The scheme with groups that divide the columns of every layer.

    Args:
        scheme: Of a preset.
        columns: The inputs of the layers.
        group_size: Of the groups; ``"auto"`` for the largest that divides all, None for the preset's.

    Raises:
        ConfigError: If a group does not divide them, or the preset has no groups, or none that may be of another size.

    Example:
        >>> fit_group(scheme_of("int4_wo_128"), [576, 1536], "auto").group_size
        64
    """
    if scheme.granularity != "group":
        if group_size is not None:
            raise ConfigError(f"group_size: expected a preset with groups, got {scheme.name}")
        return scheme
    fixed = scheme.scale != "float"
    if group_size is None or (fixed and group_size == "auto"):
        size = scheme.group_size
    elif fixed:
        raise ConfigError(f"group_size: expected {scheme.group_size}, which {scheme.name} fixes, got {group_size}")
    elif group_size == "auto":
        size = next((each for each in (128, 64, 32, 16) if each <= scheme.group_size and _divides(each, columns)), 0)
    else:
        size = group_size
    if size <= 0 or not _divides(size, columns):
        wrong = next((each for each in columns if not size or each % size), 0)
        remedy = "" if fixed or group_size == "auto" else "; --group-size auto takes the largest that does"
        raise ConfigError(
            f"group_size: expected groups that divide the inputs of every layer, got {size or group_size!r} for "
            f"{wrong}{remedy}"
        )
    return replace(scheme, group_size=size)


def _divides(size: int, columns: Sequence[int]) -> bool:
    return all(each % size == 0 for each in columns)
