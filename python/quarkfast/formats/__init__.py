"""Number formats as data, one row each: `quarkfast.formats.scalar` and `quarkfast.formats.block`.

A row says what its format is able to do; nobody outside this package compares names of formats or lists them.
"""

from __future__ import annotations

from quarkfast.errors import ConfigError, did_you_mean
from quarkfast.formats.block import BLOCK_FORMATS, BlockFormat
from quarkfast.formats.format import Format
from quarkfast.formats.scalar import FLOAT32, SCALAR_FORMATS, ScalarFormat

__all__ = [
    "BLOCK_OPERATORS",
    "FLOAT32",
    "BlockFormat",
    "Format",
    "ScalarFormat",
    "activation_formats",
    "find",
    "find_by_quant_type",
    "get",
    "weight_formats",
    "wider",
    "wider_integer",
]


BLOCK_OPERATORS = frozenset(row.operator for row in BLOCK_FORMATS.values())
"""Quark's operators that round a tensor to a block format."""

_BFLOAT16, _BYTE = "bfloat16", 8


def find(name: str) -> Format:
    """Returns the format called `name`, of either kind; ``"float32"`` is what stays as it is.

    Raises:
        ConfigError: If there is no such format.

    Example:
        >>> find("mx9").is_block, find("uint8").signed, find("bfloat16").may_be_scaled
        (True, False, True)
    """
    row = get(name)
    if row is not None:
        return row
    known = [*SCALAR_FORMATS, *BLOCK_FORMATS]
    raise ConfigError(f"format: expected one of {', '.join(known)}, got {name!r}{did_you_mean(name, known)}")


def get(name: str) -> Format | None:
    """Returns the format called `name`, or None where a later check refuses names that there are none of."""
    row = SCALAR_FORMATS.get(name) or BLOCK_FORMATS.get(name)
    return FLOAT32 if row is None and name == FLOAT32.name else row


def find_by_quant_type(member: str) -> Format | None:
    """Returns the format of a member of ONNX Runtime's ``QuantType`` or Quark's ``ExtendedQuantType``, or None.

    Of block formats, which depend on more than the member, the one that Quark takes without attributes.

    Example:
        >>> find_by_quant_type("QUInt8").name, find_by_quant_type("QMX").name
        ('uint8', 'mxint8')
    """
    return next((row for row in _rows() if row.quant_type == member), None) if member else None


def activation_formats() -> tuple[str, ...]:
    """Returns the names of the formats that activations may have.

    Example:
        >>> "int4" in activation_formats(), "int4" in weight_formats()
        (False, True)
    """
    return tuple(row.name for row in _rows() if row.activation)


def weight_formats() -> tuple[str, ...]:
    """Returns the names of the formats that weights may have."""
    return tuple(row.name for row in _rows() if row.weight)


def _rows() -> tuple[Format, ...]:
    return *SCALAR_FORMATS.values(), *BLOCK_FORMATS.values()


def wider(name: str) -> str | None:
    """Returns the format that values take which are too much for another, or None where that is wide enough.

    Integers of up to 8 bits become those of 16; blocks and floats of 8 bits become bfloat16, which has as many
    exponents as there are values; floats of 16 bits become float32.

    Example:
        >>> wider("uint8"), wider("int16"), wider("bfp16"), wider("float16")
        ('uint16', None, 'bfloat16', 'float32')
    """
    row = find(name)
    if row.is_integer or row is FLOAT32:
        return wider_integer(name)
    return _BFLOAT16 if row.is_block or row.bits <= _BYTE else FLOAT32.name


def wider_integer(name: str, bits: int = 16) -> str | None:
    """Returns the integer format with `bits` and the sign of another, or None where that is as wide or no integer.

    Example:
        >>> wider_integer("uint8"), wider_integer("int16"), wider_integer("bfloat16")
        ('uint16', None, None)
    """
    row = SCALAR_FORMATS.get(name)
    if row is None or not row.is_integer or row.bits >= bits:
        return None
    found = (each for each in SCALAR_FORMATS.values() if each.is_integer and each.bits == bits)
    return next((each.name for each in found if each.signed == row.signed), None)
