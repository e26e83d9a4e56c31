"""The block formats, one frozen row each: values along an axis share an exponent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

__all__ = ["BLOCK_FORMATS", "BlockFormat", "Rounding"]

Rounding = Literal["half_away", "half_up", "half_even"]


@dataclass(frozen=True, slots=True, eq=False)
class BlockFormat:
    """One block format.

    Attributes:
        name: As in a `TensorSpec`, e.g. ``"mx9"``.
        family: ``"bfp"``, ``"bfp_prime"`` or ``"mx"``: the end of the names of its kernels.
        operator: Quark's operator that rounds to it.
        attributes: What that operator takes apart from axis and rounding, in the order in which Quark writes them.
        block_size: Values that share an exponent.
        record_bytes: Bytes of one packed block.
        significand: Bits of an element's significand without its sign, the leading one of a float included.

    Source:
        Presets of AMD Quark 0.13; docs/numerics.md has the layouts.
    """

    name: str
    family: Literal["bfp", "bfp_prime", "mx"]
    operator: str
    attributes: Mapping[str, int | str]
    block_size: int
    record_bytes: int
    significand: int

    @property
    def bits(self) -> float:
        """Bits of one packed value of a full block.

        Example:
            >>> {name: row.bits for name, row in BLOCK_FORMATS.items() if row.bits < 6}
            {'mx4': 4.0, 'mxfp4_e2m1': 4.25}
        """
        return 8 * self.record_bytes / self.block_size


def _bfp(
    name: str, family: Literal["bfp", "bfp_prime"], bit_width: int, block: int, record: int, significand: int
) -> BlockFormat:
    attributes: dict[str, int | str] = {
        "bfp_method": f"to_{family}", "bit_width": bit_width, "block_size": block, "sub_block_size": 2,
        "sub_block_shift_bits": 1, "convert_to_bfloat_before_bfp": 0,
    }  # fmt: skip
    return BlockFormat(name, family, "BFPQuantizeDequantize", MappingProxyType(attributes), block, record, significand)


def _mx(name: str, element: str, record: int, significand: int) -> BlockFormat:
    attributes: dict[str, int | str] = {"element_dtype": element, "block_size": 32}
    return BlockFormat(name, "mx", "MXQuantizeDequantize", MappingProxyType(attributes), 32, record, significand)


BLOCK_FORMATS: Mapping[str, BlockFormat] = MappingProxyType(
    {
        row.name: row
        for row in (
            _bfp("bfp16", "bfp", 16, 8, 9, 7),
            _bfp("mx4", "bfp_prime", 11, 16, 8, 2),
            _bfp("mx6", "bfp_prime", 13, 16, 12, 4),
            _bfp("mx9", "bfp_prime", 16, 16, 18, 7),
            _mx("mxint8", "int8", 33, 7),
            _mx("mxfp8_e4m3", "fp8_e4m3", 33, 4),
            _mx("mxfp8_e5m2", "fp8_e5m2", 33, 3),
            _mx("mxfp6_e3m2", "fp6_e3m2", 25, 3),
            _mx("mxfp6_e2m3", "fp6_e2m3", 25, 4),
            _mx("mxfp4_e2m1", "fp4_e2m1", 17, 2),
        )
    }
)
"""Name -> block format."""
