"""What becomes of one kind of tensor: its type and how its scale is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from quarkfast.block_formats import BLOCK_FORMATS

__all__ = ["Granularity", "Method", "ScaleKind", "TensorSpec"]

Granularity = Literal["tensor", "channel"]
ScaleKind = Literal["float32", "power_of_two"]
Method = Literal["minmax", "nonoverflow", "minmse"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The quantized form of one kind of tensor.

    Attributes:
        dtype: Name of a row of `quarkfast.dtypes` or of `quarkfast.block_formats`, such as ``"int8"``, ``"bfloat16"``
            or ``"mx9"``.
        symmetric: Whether zero maps to the middle of the type, so that the range is ``[-absmax, absmax]``.
        granularity: One scale for the whole tensor, or one for each output channel.
        scale: The set that scales are taken from.
        method: How a range is derived from what is known of the values: ``"minmax"`` and ``"nonoverflow"`` take the
            extremes (as power-of-two scales the nearest one, and the next larger one); ``"minmse"`` takes the
            power of two with the least squared error, for weights only.
        scaled: Whether 16-bit floats get a scale: bfloat16 that which brings values into [-2, 2], float16 that which
            makes the largest value 65504. Otherwise their scale is 1.
        reduce_range: Whether integers use half of their codes, for CPUs whose 8-bit products saturate at 16 bits.

    Example:
        >>> TensorSpec("uint8", symmetric=False).granularity
        'tensor'
    """

    dtype: str
    symmetric: bool = True
    granularity: Granularity = "tensor"
    scale: ScaleKind = "float32"
    method: Method = "minmax"
    scaled: bool = False
    reduce_range: bool = False

    @property
    def needs_range(self) -> bool:
        """Whether a scale has to be found; other types hold floats as they are, or find exponents block by block."""
        return self.scaled or self.dtype.startswith(("int", "uint", "float8"))

    @property
    def is_block(self) -> bool:
        """Whether the type is a block format."""
        return self.dtype in BLOCK_FORMATS
