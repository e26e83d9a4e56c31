"""Quark's data types: names without behaviour, which specs and ``QTensorConfig`` refer to."""

from __future__ import annotations

from typing import Any

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


def _make(name: str, dtype: str, quant_type: str) -> type[DataType]:
    members: dict[str, Any] = {"dtype": dtype, "quant_type": quant_type, "__doc__": f"Quark's {name}: {dtype}."}
    return type(name, (DataType,), {**members, "__module__": __name__})


Int8 = _make("Int8", "int8", "QInt8")
UInt8 = _make("UInt8", "uint8", "QUInt8")
Int16 = _make("Int16", "int16", "QInt16")
UInt16 = _make("UInt16", "uint16", "QUInt16")
Int32 = _make("Int32", "int32", "QInt32")
UInt32 = _make("UInt32", "uint32", "QUInt32")
Float16 = _make("Float16", "float16", "QFloat16")
BFloat16 = _make("BFloat16", "bfloat16", "QBFloat16")
BFP16 = _make("BFP16", "bfp16", "QBFP")
MX4 = _make("MX4", "mx4", "QBFP")
MX6 = _make("MX6", "mx6", "QBFP")
MX9 = _make("MX9", "mx9", "QBFP")
MXInt8 = _make("MXInt8", "mxint8", "QMX")
MXFP8E4M3 = _make("MXFP8E4M3", "mxfp8_e4m3", "QMX")
MXFP8E5M2 = _make("MXFP8E5M2", "mxfp8_e5m2", "QMX")
MXFP6E3M2 = _make("MXFP6E3M2", "mxfp6_e3m2", "QMX")
MXFP6E2M3 = _make("MXFP6E2M3", "mxfp6_e2m3", "QMX")
MXFP4E2M1 = _make("MXFP4E2M1", "mxfp4_e2m1", "QMX")
