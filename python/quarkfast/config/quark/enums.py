"""Quark's enumerations, with its names and values."""

from __future__ import annotations

from enum import Enum

from quarkfast.formats import ScalarFormat, find_by_quant_type

__all__ = [
    "CalibMethod",
    "CalibrationMethod",
    "ExtendedCalibrationMethod",
    "ExtendedQuantFormat",
    "ExtendedQuantType",
    "Int16Method",
    "LayerWiseMethod",
    "PowerOfTwoMethod",
    "QuantFormat",
    "QuantGranularity",
    "QuantType",
    "QuantizationMode",
    "ScaleType",
    "VitisQuantFormat",
    "VitisQuantType",
]


class CalibMethod(Enum):
    """Range-estimation methods of :class:`QTensorConfig`."""

    MinMax = 0
    MinMSE = 1
    Percentile = 2
    Entropy = 3
    LayerwisePercentile = 4
    Distribution = 5


class ScaleType(Enum):
    """Which values a scale may have."""

    Float32 = 0
    PowerOf2 = 1
    Int16 = 2


class QuantGranularity(Enum):
    """Which values of a tensor share a scale."""

    Tensor = 0
    Channel = 1
    Group = 2


class CalibrationMethod(Enum):
    """ONNX Runtime's calibration methods."""

    MinMax = 0
    Entropy = 1
    Percentile = 2
    Distribution = 3


class PowerOfTwoMethod(Enum):
    """Calibration methods with power-of-two scales."""

    NonOverflow = 0
    MinMSE = 1


class Int16Method(Enum):
    """Calibration methods with scales of the form M / 2^N, where M has 16 bits."""

    MinMax = 0


class LayerWiseMethod(Enum):
    """Calibration methods that choose a percentile for each tensor."""

    LayerWisePercentile = 0


class ExtendedCalibrationMethod(Enum):
    """Calibration methods for weights."""

    MinMSE = 0


class _TypedEnum(Enum):
    @property
    def tensor_type(self) -> int:
        """The type in ``onnx.TensorProto.DataType``; 0 for block formats, which ONNX has no type for."""
        row = find_by_quant_type(self.name)
        return row.onnx if isinstance(row, ScalarFormat) else 0


class QuantType(_TypedEnum):
    """ONNX Runtime's quantized types."""

    QInt8 = 0
    QUInt8 = 1
    QFLOAT8E4M3FN = 2
    QInt16 = 3
    QUInt16 = 4
    QInt4 = 5
    QUInt4 = 6


class ExtendedQuantType(_TypedEnum):
    """Quark's quantized types."""

    QInt8 = 1
    QUInt8 = 2
    QInt16 = 3
    QUInt16 = 4
    QInt32 = 5
    QUInt32 = 6
    QFloat16 = 7
    QBFloat16 = 8
    QBFP = 9
    QMX = 10


class QuantizationMode(Enum):
    """ONNX Runtime's kinds of operators of an older form of quantized models."""

    IntegerOps = 0
    QLinearOps = 1


class QuantFormat(Enum):
    """ONNX Runtime's forms of a quantized model."""

    QOperator = 0
    QDQ = 1


class ExtendedQuantFormat(Enum):
    """Quark's forms of a quantized model."""

    QOperator = 0
    QDQ = 1


class VitisQuantFormat(Enum):
    """The older names of Quark's forms."""

    QDQ = 2
    FixNeuron = 3
    BFPFixNeuron = 4
    MXFixNeuron = 5


#: The older name of :class:`ExtendedQuantType`.
VitisQuantType = ExtendedQuantType
