"""The scalar formats, one frozen row each: integers and floats of at most 32 bits.

NumPy and ml_dtypes are imported when the dtype of a row is asked for, because the command line reads rows to print its
help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from quarkfast.errors import did_you_mean, shown
from quarkfast.formats.format import Format

if TYPE_CHECKING:
    import numpy as np

__all__ = ["FLOAT32", "KERNEL_FORMATS", "SCALAR_FORMATS", "ScalarFormat", "integer_type", "qtype"]


@dataclass(frozen=True, eq=False, kw_only=True)
class ScalarFormat(Format):
    """One scalar format; its name is NumPy's, ml_dtypes' and ONNX's in lower case.

    Attributes:
        code: Short name in kernels, e.g. ``"i8"``.
        bits: Width of one element in bits.
        qmin: Lowest code of an integer type, or lowest finite value of a float type.
        qmax: Highest code, or highest finite value.
        onnx: Value of the type in ``onnx.TensorProto.DataType``, 0 (``UNDEFINED``) where ONNX has no such type.
        storage: Name of the NumPy or ml_dtypes type that holds one element, where it is another than `name`.
        scaled_max: What a scale makes of the largest magnitude of a float type, or None.
        constant_limits: Least and greatest magnitude of constants other than zero, or None for what the type holds.
    """

    code: str
    bits: int
    qmin: int | float
    qmax: int | float
    onnx: int
    storage: str = ""
    scaled_max: float | None = None
    constant_limits: tuple[float, float] | None = None

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype that holds one element."""
        import ml_dtypes
        import numpy as np

        name = self.storage or self.name
        return np.dtype(getattr(ml_dtypes, name, name))

    @property
    def stored_bits(self) -> int:
        """Width of the type that holds one element: 4 for codes of 3 bits, which lie in int4."""
        return SCALAR_FORMATS[self.storage].bits if self.storage else self.bits


def _integer(name: str, code: str, bits: int, onnx: int, **capabilities: Any) -> ScalarFormat:
    signed = not name.startswith("u")
    qmin = -(1 << (bits - 1)) if signed else 0
    return ScalarFormat(
        name=name, code=code, bits=bits, onnx=onnx, qmin=qmin, qmax=qmin + (1 << bits) - 1,
        is_integer=True, is_evenly_spaced=True, signed=signed, needs_scale=True, **capabilities,
    )  # fmt: skip


def _float(name: str, code: str, bits: int, qmax: float, onnx: int, **capabilities: Any) -> ScalarFormat:
    qmin = capabilities.pop("qmin", -qmax)
    return ScalarFormat(name=name, code=code, bits=bits, qmin=qmin, qmax=qmax, onnx=onnx, **capabilities)


def _linear(opset: int) -> dict[str, int]:
    return {"linear_opset": opset, "dequantize_opset": opset}


_BOTH = MappingProxyType({"activation": True, "weight": True})
# No QuantizeLinear, because onnxruntime's optimizer takes every one for one to integers: it drops a Relu in front of
# one to float8, cannot load a Clip there, and before 1.32 makes QLinearConv and others of codes that they do not know.
_FLOAT8 = MappingProxyType({**_BOTH, "needs_scale": True, "cast_opset": 19})
# 13 because stored constants are turned back by a Cast, which knows bfloat16 from there on.
_FLOAT16 = MappingProxyType({**_BOTH, "may_be_scaled": True, "custom_opset": 13, "cast_opset": 13})
# Quark keeps the magnitude of bfloat16 weights between the smallest normal number and a bound just under the largest
# finite bfloat16 (specification of Quark, section 3.5), so that no weight becomes infinite or subnormal.
_BFLOAT16_LIMITS = (1.17549435e-38, 3.38953139e38)

_ROWS = (
    _integer("int2", "i2", 2, 26),
    _integer("uint2", "u2", 2, 25),
    # ONNX has no three bits: codes lie in int4, the narrowest type of hers that onnxruntime turns back.
    _integer("int3", "i3", 3, 22, storage="int4", weight=True, **_linear(21)),
    _integer("int4", "i4", 4, 22, weight=True, quant_type="QInt4", **_linear(21)),
    _integer("uint4", "u4", 4, 21, weight=True, quant_type="QUInt4", **_linear(21)),
    _integer("int8", "i8", 8, 3, integer_operators=True, quant_type="QInt8", **_BOTH, **_linear(10)),
    _integer("uint8", "u8", 8, 2, integer_operators=True, quant_type="QUInt8", **_BOTH, **_linear(10)),
    _integer("int16", "i16", 16, 5, quant_type="QInt16", **_BOTH, **_linear(21)),
    _integer("uint16", "u16", 16, 4, quant_type="QUInt16", **_BOTH, **_linear(21)),
    _integer("int32", "i32", 32, 6, dequantize_opset=10, custom_opset=10, quant_type="QInt32", **_BOTH),
    _integer("uint32", "u32", 32, 12, custom_opset=10, quant_type="QUInt32", **_BOTH),
    _float(
        "float16", "f16", 16, 65504.0, 10, scaled_max=65504.0, constant_limits=(0.0, 65504.0),
        quant_type="QFloat16", **_FLOAT16,
    ),
    # It has the exponents of float32, so that a scale could make anything of the largest magnitude; 2 is Quark's.
    _float(
        "bfloat16", "bf16", 16, 3.3895313892515355e38, 16, scaled_max=2.0, constant_limits=_BFLOAT16_LIMITS,
        float32_range=True, quant_type="QBFloat16", **_FLOAT16,
    ),
    _float("float8_e4m3fn", "e4m3fn", 8, 448.0, 17, scaled_max=448.0, quant_type="QFLOAT8E4M3FN", **_FLOAT8),
    _float("float8_e4m3fnuz", "e4m3fnuz", 8, 240.0, 18),
    _float("float8_e5m2", "e5m2", 8, 57344.0, 19, scaled_max=57344.0, **_FLOAT8),
    _float("float8_e5m2fnuz", "e5m2fnuz", 8, 57344.0, 20),
    _float("float8_e8m0fnu", "e8m0fnu", 8, 2.0**127, 24, qmin=2.0**-127, signed=False),
    _float("float6_e2m3fn", "e2m3fn", 6, 7.5, 0),
    _float("float6_e3m2fn", "e3m2fn", 6, 28.0, 0),
    _float("float4_e2m1fn", "e2m1fn", 4, 6.0, 23),
)  # fmt: skip

_BY_NAME = {row.name: row for row in _ROWS}

SCALAR_FORMATS: Mapping[str, ScalarFormat] = MappingProxyType(_BY_NAME)
"""Name -> scalar format."""

KERNEL_FORMATS = tuple(row for row in _ROWS if not row.storage)
"""The scalar formats with a dtype of their own, by which kernels know them."""

FLOAT32 = _float("float32", "f32", 32, 3.4028234663852886e38, 1, float32_range=True)
"""What a tensor is before it is quantized; not among the formats that it is quantized to."""


def qtype(dtype: Any) -> ScalarFormat:
    """Return the row of a dtype, given as a name, a NumPy dtype or a scalar type.

    Raises:
        TypeError: there is no such quantized type.

    Example:
        >>> import numpy as np
        >>> qtype("int8").qmax, qtype(np.uint16).code
        (127, 'u16')
    """
    if isinstance(dtype, ScalarFormat):
        return dtype
    if isinstance(dtype, str) and dtype in SCALAR_FORMATS:
        return SCALAR_FORMATS[dtype]
    import numpy as np

    try:
        row = _by_dtype().get(np.dtype(dtype))
    except (TypeError, ValueError):
        row = None
    if row is None:
        known = SCALAR_FORMATS
        raise TypeError(
            f"dtype: expected one of {', '.join(known)}, got {shown(dtype)}{did_you_mean(str(dtype), known)}"
        )
    return row


def integer_type(dtype: Any) -> ScalarFormat:
    """Return the row of an integer dtype.

    Raises:
        TypeError: the dtype is not a quantized integer type.
    """
    try:
        return _integers()[dtype]
    except (KeyError, TypeError):  # spelled unusually, or wrong
        row = qtype(dtype)
    if not row.is_integer:
        raise TypeError(f"dtype: expected an integer type, got {row.name}")
    return row


@cache
def _by_dtype() -> dict[Any, ScalarFormat]:
    return {row.dtype: row for row in KERNEL_FORMATS}


@cache
def _integers() -> dict[Any, ScalarFormat]:
    """The usual spellings of integer types: a look-up here takes a quarter of the time of making a dtype."""
    rows = [row for row in KERNEL_FORMATS if row.is_integer]
    return {spelling: row for row in rows for spelling in (row, row.name, row.dtype, row.dtype.type)}
