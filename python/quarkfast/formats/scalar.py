"""The quantized types, one frozen row each; everything else that depends on a type derives from its row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from quarkfast.errors import did_you_mean, shown

__all__ = ["TYPES", "QType", "integer_type", "qtype"]


@dataclass(frozen=True)
class QType:
    """One quantized element type.

    Attributes:
        name: NumPy's, ml_dtypes' and ONNX's name in lower case, e.g. ``"int8"``.
        code: Short name in kernels, e.g. ``"i8"``.
        dtype: The NumPy dtype that holds one element.
        bits: Width of one element in bits.
        kind: ``"int"``, ``"uint"`` or ``"float"``.
        qmin: Lowest code of an integer type, or lowest finite value of a float type.
        qmax: Highest code, or highest finite value.
        onnx: Value of the type in ``onnx.TensorProto.DataType``, 0 (``UNDEFINED``) where ONNX has no such type.
    """

    name: str
    code: str
    dtype: np.dtype[Any]
    bits: int
    kind: str
    qmin: int | float
    qmax: int | float
    onnx: int

    @property
    def is_integer(self) -> bool:
        """Whether elements are integer codes."""
        return self.kind != "float"


def _integer(name: str, code: str, dtype: Any, bits: int, onnx: int) -> QType:
    signed = not name.startswith("u")
    qmin = -(1 << (bits - 1)) if signed else 0
    return QType(name, code, np.dtype(dtype), bits, "int" if signed else "uint", qmin, qmin + (1 << bits) - 1, onnx)


def _float(name: str, code: str, dtype: Any, onnx: int) -> QType:
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return QType(name, code, np.dtype(dtype), info.bits, "float", float(info.min), float(info.max), onnx)


_ROWS = (
    _integer("int2", "i2", ml_dtypes.int2, 2, 26),
    _integer("uint2", "u2", ml_dtypes.uint2, 2, 25),
    _integer("int4", "i4", ml_dtypes.int4, 4, 22),
    _integer("uint4", "u4", ml_dtypes.uint4, 4, 21),
    _integer("int8", "i8", np.int8, 8, 3),
    _integer("uint8", "u8", np.uint8, 8, 2),
    _integer("int16", "i16", np.int16, 16, 5),
    _integer("uint16", "u16", np.uint16, 16, 4),
    _integer("int32", "i32", np.int32, 32, 6),
    _integer("uint32", "u32", np.uint32, 32, 12),
    _float("float16", "f16", np.float16, 10),
    _float("bfloat16", "bf16", ml_dtypes.bfloat16, 16),
    _float("float8_e4m3fn", "e4m3fn", ml_dtypes.float8_e4m3fn, 17),
    _float("float8_e4m3fnuz", "e4m3fnuz", ml_dtypes.float8_e4m3fnuz, 18),
    _float("float8_e5m2", "e5m2", ml_dtypes.float8_e5m2, 19),
    _float("float8_e5m2fnuz", "e5m2fnuz", ml_dtypes.float8_e5m2fnuz, 20),
    _float("float8_e8m0fnu", "e8m0fnu", ml_dtypes.float8_e8m0fnu, 24),
    _float("float6_e2m3fn", "e2m3fn", ml_dtypes.float6_e2m3fn, 0),
    _float("float6_e3m2fn", "e3m2fn", ml_dtypes.float6_e3m2fn, 0),
    _float("float4_e2m1fn", "e2m1fn", ml_dtypes.float4_e2m1fn, 23),
)

#: Every quantized type by name.
TYPES: dict[str, QType] = {row.name: row for row in _ROWS}

_BY_DTYPE = {row.dtype: row for row in _ROWS}

# The usual spellings of integer types: a look-up here takes a quarter of the time of making a dtype.
_INTEGERS: dict[Any, QType] = {
    spelling: row for row in _ROWS if row.is_integer for spelling in (row, row.name, row.dtype, row.dtype.type)
}


def qtype(dtype: Any) -> QType:
    """Return the row of a dtype, given as a name, a NumPy dtype or a scalar type.

    Raises:
        TypeError: there is no such quantized type.

    Example:
        >>> qtype("int8").qmax, qtype(np.uint16).code
        (127, 'u16')
    """
    if isinstance(dtype, QType):
        return dtype
    if isinstance(dtype, str) and dtype in TYPES:
        return TYPES[dtype]
    try:
        row = _BY_DTYPE.get(np.dtype(dtype))
    except (TypeError, ValueError):
        row = None
    if row is None:
        raise TypeError(
            f"dtype: expected one of {', '.join(TYPES)}, got {shown(dtype)}{did_you_mean(str(dtype), TYPES)}"
        )
    return row


def integer_type(dtype: Any) -> QType:
    """Return the row of an integer dtype.

    Raises:
        TypeError: the dtype is not a quantized integer type.
    """
    try:
        return _INTEGERS[dtype]
    except (KeyError, TypeError):  # spelled unusually, or wrong
        row = qtype(dtype)
    if not row.is_integer:
        raise TypeError(f"dtype: expected an integer type, got {row.name}")
    return row
