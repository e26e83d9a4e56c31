"""The block formats, one frozen row each: values along an axis share an exponent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from quarkfast.formats.format import Format

__all__ = ["BLOCK_FORMATS", "BlockFormat", "Rounding"]

Rounding = Literal["half_away", "half_up", "half_even"]

_INT8_SIGNIFICAND = 7


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockFormat(Format):
    """One block format.

    Attributes:
        family: ``"bfp"``, ``"bfp_prime"`` or ``"mx"``: the end of the names of its kernels.
        operator: Quark's operator that rounds to it.
        attributes: What that operator takes apart from axis and rounding, in the order in which Quark writes them.
        block_size: Values that share an exponent.
        record_bytes: Bytes of one packed block.
        significand: Bits of an element's significand without its sign, the leading one of a float included.

    Source:
        Presets of AMD Quark 0.13; docs/numerics.md has the layouts.

    Example:
        >>> {name: row.bits for name, row in BLOCK_FORMATS.items() if row.bits < 6}
        {'mx4': 4.0, 'mxfp4_e2m1': 4.25}
    """

    family: Literal["bfp", "bfp_prime", "mx"]
    operator: str
    attributes: Mapping[str, int | str]
    block_size: int
    record_bytes: int
    significand: int


def _block(name: str, block: int, record: int, significand: int, **more: Any) -> BlockFormat:
    return BlockFormat(
        name=name, bits=8 * record / block, activation=True, weight=True, is_block=True, custom_opset=10,
        is_narrow_block=significand < _INT8_SIGNIFICAND, block_size=block, record_bytes=record,
        significand=significand, **more,
    )  # fmt: skip


def _bfp(name: str, family: str, bit_width: int, block: int, record: int, significand: int, **more: Any) -> BlockFormat:
    attributes: dict[str, int | str] = {
        "bfp_method": f"to_{family}", "bit_width": bit_width, "block_size": block, "sub_block_size": 2,
        "sub_block_shift_bits": 1, "convert_to_bfloat_before_bfp": 0,
    }  # fmt: skip
    return _block(
        name, block, record, significand, family=family, operator="BFPQuantizeDequantize",
        attributes=MappingProxyType(attributes), quant_type="QBFP", is_evenly_spaced=True, **more,
    )  # fmt: skip


def _mx(name: str, element: str, record: int, significand: int) -> BlockFormat:
    attributes: dict[str, int | str] = {"element_dtype": element, "block_size": 32}
    return _block(
        name, 32, record, significand, family="mx", operator="MXQuantizeDequantize",
        attributes=MappingProxyType(attributes), quant_type="QMX", operands_only=True,
        is_evenly_spaced=element == "int8",
    )  # fmt: skip


BLOCK_FORMATS: Mapping[str, BlockFormat] = MappingProxyType(
    {
        row.name: row
        for row in (
            _bfp("bfp16", "bfp", 16, 8, 9, 7),
            _bfp("mx4", "bfp_prime", 11, 16, 8, 2, operands_only=True),
            _bfp("mx6", "bfp_prime", 13, 16, 12, 4, operands_only=True),
            _bfp("mx9", "bfp_prime", 16, 16, 18, 7, operands_only=True),
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
