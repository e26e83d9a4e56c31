"""Quark's tensor configurations and the ready-made specs."""

from __future__ import annotations

from typing import Any

from quarkfast.config.quark import data_type
from quarkfast.config.quark.arguments import checked_arguments
from quarkfast.config.quark.data_type import DataType
from quarkfast.config.quark.enums import CalibMethod, QuantGranularity, ScaleType
from quarkfast.errors import ConfigError, shown

__all__ = [
    "BFP16Spec",
    "BFloat16Spec",
    "CalibMethod",
    "Float16Spec",
    "Int8Spec",
    "Int16Spec",
    "Int32Spec",
    "MX4Spec",
    "MX6Spec",
    "MX9Spec",
    "MXFP4E2M1Spec",
    "MXFP6E2M3Spec",
    "MXFP6E3M2Spec",
    "MXFP8E4M3Spec",
    "MXFP8E5M2Spec",
    "MXInt8Spec",
    "QLayerConfig",
    "QTensorConfig",
    "QuantGranularity",
    "ScaleType",
    "UInt8Spec",
    "UInt16Spec",
    "UInt32Spec",
    "XInt8Spec",
]


@checked_arguments
class QTensorConfig:
    """How one kind of tensor is quantized, in Quark's terms.

    Args:
        symmetric: Whether zero maps to the middle of the type.
        scale_type: The set that scales are taken from.
        calibration_method: How the range is found.
        quant_granularity: What shares a scale.
        data_type: A class of :mod:`quarkfast.config.quark.data_type`.

    Raises:
        ConfigError: An argument is of the wrong kind.
    """

    def __init__(
        self,
        symmetric: bool = True,
        scale_type: ScaleType = ScaleType.Float32,
        calibration_method: CalibMethod = CalibMethod.MinMax,
        quant_granularity: QuantGranularity = QuantGranularity.Tensor,
        data_type: type[DataType] = data_type.Int8,
    ) -> None:
        self.set_symmetric(symmetric)
        self.set_scale_type(scale_type)
        self.set_calibration_method(calibration_method)
        self.set_quant_granularity(quant_granularity)
        self.set_data_type(data_type)

    def set_symmetric(self, symmetric: bool) -> None:
        """Set whether zero maps to the middle of the type."""
        self.symmetric = _checked("symmetric", symmetric, bool)

    def set_scale_type(self, scale_type: ScaleType) -> None:
        """Set the set that scales are taken from."""
        self.scale_type = _checked("scale_type", scale_type, ScaleType)

    def set_calibration_method(self, calibration_method: CalibMethod) -> None:
        """Set how the range is found."""
        self.calibration_method = _checked("calibration_method", calibration_method, CalibMethod)

    def set_quant_granularity(self, quant_granularity: QuantGranularity) -> None:
        """Set what shares a scale."""
        self.quant_granularity = _checked("quant_granularity", quant_granularity, QuantGranularity)

    def set_data_type(self, data_type: type[DataType] | DataType) -> None:
        """Set the data type, given as a class or an instance of it."""
        kind = data_type if isinstance(data_type, type) else type(data_type)
        if not issubclass(kind, DataType) or not kind.dtype:
            raise ConfigError(f"QTensorConfig: data_type: expected a data type such as Int8, got {data_type!r}")
        self.data_type = kind

    def to_dict(self) -> dict[str, Any]:
        """Return plain data from which :meth:`from_dict` makes an equal object."""
        enums = {key: str(getattr(self, key)) for key in _ENUMS}
        return {"symmetric": self.symmetric, "data_type": self.data_type.__name__, **enums}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> QTensorConfig:
        """Make a tensor configuration of plain data.

        Raises:
            ConfigError: A field is missing or has no such value.
        """
        try:
            kind = getattr(data_type, data["data_type"])
            enums = {key: enum[data[key].removeprefix(f"{enum.__name__}.")] for key, enum in _ENUMS.items()}
            return QTensorConfig(symmetric=data["symmetric"], data_type=kind, **enums)
        except (KeyError, AttributeError, TypeError) as error:
            raise ConfigError(f"QTensorConfig.from_dict: expected known fields and values, got {data!r}") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QTensorConfig) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.to_dict().values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value}' for key, value in self.to_dict().items())})"


_ENUMS: dict[str, Any] = {
    "scale_type": ScaleType,
    "calibration_method": CalibMethod,
    "quant_granularity": QuantGranularity,
}


def _checked(name: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ConfigError(f"QTensorConfig: {name}: expected {kind.__name__}, got {value!r}")
    return value


@checked_arguments
class _Spec(QTensorConfig):
    """A tensor configuration whose data type is fixed; the defaults of the others are class attributes."""

    _defaults: tuple[bool, ScaleType, CalibMethod, type[DataType]]

    def __init__(
        self,
        symmetric: bool | None = None,
        scale_type: ScaleType | None = None,
        calibration_method: CalibMethod | None = None,
        quant_granularity: QuantGranularity = QuantGranularity.Tensor,
    ) -> None:
        default_symmetric, default_scale, default_method, kind = self._defaults
        super().__init__(
            default_symmetric if symmetric is None else symmetric,
            default_scale if scale_type is None else scale_type,
            default_method if calibration_method is None else calibration_method,
            quant_granularity,
            kind,
        )


def _make(
    kind: type[DataType], symmetric: bool, method: CalibMethod, base: type[_Spec] = _Spec, prefix: str = ""
) -> type[_Spec]:
    scale = ScaleType.PowerOf2 if prefix else ScaleType.Float32
    name = f"{prefix}{kind.__name__}Spec"
    text = f"{name}: {kind.dtype}, {'symmetric' if symmetric else 'asymmetric'}, {scale}, {method}."
    return type(name, (base,), {"_defaults": (symmetric, scale, method, kind), "__doc__": text, "__module__": __name__})


Int8Spec = _make(data_type.Int8, True, CalibMethod.Percentile)
Int16Spec = _make(data_type.Int16, True, CalibMethod.Percentile)
Int32Spec = _make(data_type.Int32, True, CalibMethod.Percentile)
UInt8Spec = _make(data_type.UInt8, False, CalibMethod.Percentile)
UInt16Spec = _make(data_type.UInt16, False, CalibMethod.Percentile)
UInt32Spec = _make(data_type.UInt32, False, CalibMethod.Percentile)
XInt8Spec = _make(data_type.Int8, True, CalibMethod.MinMSE, Int8Spec, "X")
Float16Spec = _make(data_type.Float16, True, CalibMethod.MinMax)
BFloat16Spec = _make(data_type.BFloat16, True, CalibMethod.MinMax)
BFP16Spec = _make(data_type.BFP16, True, CalibMethod.MinMax)
MX4Spec = _make(data_type.MX4, True, CalibMethod.MinMax)
MX6Spec = _make(data_type.MX6, True, CalibMethod.MinMax)
MX9Spec = _make(data_type.MX9, True, CalibMethod.MinMax)
MXInt8Spec = _make(data_type.MXInt8, True, CalibMethod.MinMax)
MXFP8E4M3Spec = _make(data_type.MXFP8E4M3, True, CalibMethod.MinMax)
MXFP8E5M2Spec = _make(data_type.MXFP8E5M2, True, CalibMethod.MinMax)
MXFP6E3M2Spec = _make(data_type.MXFP6E3M2, True, CalibMethod.MinMax)
MXFP6E2M3Spec = _make(data_type.MXFP6E2M3, True, CalibMethod.MinMax)
MXFP4E2M1Spec = _make(data_type.MXFP4E2M1, True, CalibMethod.MinMax)


@checked_arguments
class QLayerConfig:
    """Tensor configurations of a layer; `activation` is Quark's older name of `input_tensors`.

    Args:
        input_tensors: Activations that enter a layer.
        activation: The same under its older name.
        weight: Weights.
        bias: Biases; None leaves the choice to the scheme.
        output_tensors: Activations that leave a layer; None takes `input_tensors`.

    Raises:
        ConfigError: Both or neither name of the activation is given, or no weight.
    """

    def __init__(
        self,
        input_tensors: QTensorConfig | None = None,
        activation: QTensorConfig | None = None,
        weight: QTensorConfig | None = None,
        bias: QTensorConfig | None = None,
        output_tensors: QTensorConfig | None = None,
    ) -> None:
        given = [each for each in (input_tensors, activation) if each is not None]
        if len(given) != 1:
            got = "both" if given else "neither"
            raise ConfigError(f"QLayerConfig: expected one of input_tensors and activation, got {got}")
        if weight is None:
            raise ConfigError("QLayerConfig: weight: expected a tensor configuration, got None")
        self.input_tensors = given[0]
        self.weight = weight
        self.bias = bias
        self.output_tensors = output_tensors
        for name, each in vars(self).items():
            if not isinstance(each, QTensorConfig | None):
                raise ConfigError(f"QLayerConfig: {name}: expected a tensor configuration, got {shown(each)}")

    @property
    def activation(self) -> QTensorConfig:
        """The older name of `input_tensors`."""
        return self.input_tensors

    def to_dict(self) -> dict[str, Any]:
        """Return plain data from which :meth:`from_dict` makes an equal object."""
        fields = ("input_tensors", "weight", "bias", "output_tensors")
        return {key: spec.to_dict() for key in fields if (spec := getattr(self, key)) is not None}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> QLayerConfig:
        """Make a layer configuration of plain data.

        Raises:
            ConfigError: A field is missing or has no such value.
        """
        return QLayerConfig(**{key: QTensorConfig.from_dict(value) for key, value in data.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QLayerConfig) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.input_tensors, self.weight, self.bias, self.output_tensors))
