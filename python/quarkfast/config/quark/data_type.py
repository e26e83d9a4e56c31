"""Quark's data types: names without behaviour, which specs and ``QTensorConfig`` refer to."""

from __future__ import annotations

from typing import Any

from quarkfast.formats import find

__all__ = [
    "BFP16",
    "MX4",
    "MX6",
    "MX9",
    "MXFP4E2M1",
    "MXFP6E2M3",
    "MXFP6E3M2",
    "MXFP8E4M3",
    "MXFP8E5M2",
    "BFloat16",
    "DataType",
    "Float16",
    "Int8",
    "Int16",
    "Int32",
    "MXInt8",
    "UInt8",
    "UInt16",
    "UInt32",
]


class DataType:
    """A data type of Quark.

    Attributes:
        dtype: quarkfast's name of the type or format.
        quant_type: Name of the member of ``QuantType`` or ``ExtendedQuantType``.
    """

    dtype: str = ""
    quant_type: str = ""


def _make(name: str, dtype: str) -> type[DataType]:
    quant_type = find(dtype).quant_type
    members: dict[str, Any] = {"dtype": dtype, "quant_type": quant_type, "__doc__": f"Quark's {name}: {dtype}."}
    return type(name, (DataType,), {**members, "__module__": __name__})


Int8 = _make("Int8", "int8")
UInt8 = _make("UInt8", "uint8")
Int16 = _make("Int16", "int16")
UInt16 = _make("UInt16", "uint16")
Int32 = _make("Int32", "int32")
UInt32 = _make("UInt32", "uint32")
Float16 = _make("Float16", "float16")
BFloat16 = _make("BFloat16", "bfloat16")
BFP16 = _make("BFP16", "bfp16")
MX4 = _make("MX4", "mx4")
MX6 = _make("MX6", "mx6")
MX9 = _make("MX9", "mx9")
MXInt8 = _make("MXInt8", "mxint8")
MXFP8E4M3 = _make("MXFP8E4M3", "mxfp8_e4m3")
MXFP8E5M2 = _make("MXFP8E5M2", "mxfp8_e5m2")
MXFP6E3M2 = _make("MXFP6E3M2", "mxfp6_e3m2")
MXFP6E2M3 = _make("MXFP6E2M3", "mxfp6_e2m3")
MXFP4E2M1 = _make("MXFP4E2M1", "mxfp4_e2m1")
