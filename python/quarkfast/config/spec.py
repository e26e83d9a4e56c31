"""The tensor spec: the type of one kind of tensor and how its scale is found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from quarkfast import formats
from quarkfast.errors import ConfigError
from quarkfast.ranges.registry import METHODS, PARAMETERS

__all__ = ["Granularity", "ScaleKind", "TensorSpec"]

Granularity = Literal["tensor", "channel", "group"]
ScaleKind = Literal["float32", "power_of_two", "dyadic", "half"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The quantized form of one kind of tensor.

    Attributes:
        dtype: Name of a number format, a row of `quarkfast.formats`, such as ``"int8"``, ``"bfloat16"`` or ``"mx9"``;
            ``"float32"`` for activations that stay as they are.
        symmetric: Whether zero maps to the middle of the type, so that the range is ``[-absmax, absmax]``.
        granularity: One scale for the whole tensor, one for each output channel, or one for each group of weights
            along the axis that a matrix product sums over (weights beside float activations only).
        scale: The set that scales are taken from; ``"dyadic"`` is ``M / 2^N`` with M up to 32767 and N up to 16,
            ``"half"`` has the model stay in float16, with pairs that take and give that.
        method: How a range is derived from what is known of the values, a row of `quarkfast.ranges.registry`.
        scaled: Whether 16-bit floats get a scale: bfloat16 that which brings values into [-2, 2], float16 that which
            makes the largest value 65504. Otherwise their scale is 1.
        reduce_range: Whether integers use half of their codes, for CPUs whose 8-bit products saturate at 16 bits.
        percentile: Percent of the values that ``"percentile"`` keeps, above 0 and up to 100.
        percentiles: What ``"layerwise_percentile"`` chooses from.
        metric: The error that ``"layerwise_percentile"`` chooses by: mean absolute or mean squared.
        scenario: Whether ``"distribution"`` reads the values or, ``"p3"``, their cube roots.
        levels: Groups of values for ``"entropy"``, from 2 to 2048; None means half the codes of the type.
        bins: None, for ``"entropy"`` by TensorRT's definition; a power of two from 128 to 4096 means onnxruntime's
            arithmetic with so many bins.
        range_symmetric: Whether ranges mirror themselves around zero; None means where codes do.
        group_size: Weights of one group.

    Raises:
        ConfigError: If the method or one of its parameters is not among these.

    Example:
        >>> TensorSpec("uint8", symmetric=False, method="percentile", percentile=99.9).granularity
        'tensor'
    """

    dtype: str
    symmetric: bool = True
    granularity: Granularity = "tensor"
    scale: ScaleKind = "float32"
    method: str = "minmax"
    scaled: bool = False
    reduce_range: bool = False
    percentile: float = PARAMETERS["percentile"].default
    percentiles: tuple[float, ...] = PARAMETERS["percentiles"].default
    metric: str = PARAMETERS["metric"].default
    scenario: str = PARAMETERS["scenario"].default
    levels: int | None = PARAMETERS["levels"].default
    bins: int | None = PARAMETERS["bins"].default
    range_symmetric: bool | None = None
    group_size: int = 128

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ConfigError(f"method: expected one of {', '.join(METHODS)}, got {self.method!r}")
        for name, parameter in PARAMETERS.items():
            parameter.check(parameter.option or name, getattr(self, name))
        if self.bins is not None and self.levels is not None and self.levels > self.bins:
            raise ConfigError(f"levels: expected at most as many as bins ({self.bins}), got {self.levels}")

    @property
    def format(self) -> formats.Format:
        """The row of the type, which says what it is able to do.

        Raises:
            ConfigError: If there is no such type.
        """
        return formats.find(self.dtype)

    @property
    def stays_float(self) -> bool:
        """Whether the tensor stays as it is."""
        return self.dtype == formats.FLOAT32.name

    @property
    def needs_range(self) -> bool:
        """Whether a scale has to be found; other types hold floats as they are, or find exponents block by block."""
        return self.scaled or self.format.needs_scale

    def with_type(self, dtype: str) -> TensorSpec:
        """Returns the spec with another type and that type's usual symmetry: unsigned integers have none.

        What has no range to map (16-bit floats, block formats) starts from the defaults.
        """
        if dtype == self.dtype:
            return self
        other = formats.get(dtype)
        if other is None or not other.is_integer:
            return TensorSpec(dtype)
        return replace(self, dtype=dtype, symmetric=other.signed, scaled=False)

    def per_channel(self) -> TensorSpec:
        """Returns the spec with one scale for each channel, and the method that goes with it.

        A channel has few values, and its extremes are among them.
        """
        plain = self.method == "minmse" and self.scale == "float32"
        return replace(self, granularity="channel", method="minmax" if plain else self.method)

    @property
    def is_block(self) -> bool:
        """Whether the type is a block format."""
        return self.format.is_block

    @property
    def is_narrow_block(self) -> bool:
        """Whether the type is a block format whose elements have fewer significant bits than int8."""
        return self.format.is_narrow_block

    @property
    def mirrored(self) -> bool:
        """Whether the range mirrors itself around zero."""
        return self.symmetric if self.range_symmetric is None else self.range_symmetric
