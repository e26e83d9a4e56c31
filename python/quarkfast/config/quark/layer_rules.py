"""From Quark's configurations of a tensor and of a layer to specs and rules."""

from __future__ import annotations

from dataclasses import asdict

from quarkfast.config.quark.assemble import make_spec
from quarkfast.config.quark.data_type import Int32
from quarkfast.config.quark.enums import CalibMethod, QuantGranularity, ScaleType
from quarkfast.config.quark.spec import QLayerConfig, QTensorConfig
from quarkfast.config.rules import BiasKind, Change, LayerRule
from quarkfast.config.spec import TensorSpec
from quarkfast.errors import UnsupportedError

__all__ = ["bias_kind", "check_granularities", "is_power_of_two", "layer_rule", "tensor_spec", "weight_method"]

_SCALES = {ScaleType.Float32: "float32", ScaleType.PowerOf2: "power_of_two", ScaleType.Int16: "dyadic"}
_GRANULARITIES = {
    QuantGranularity.Tensor: "tensor",
    QuantGranularity.Channel: "channel",
    QuantGranularity.Group: "group",
}
_METHODS = {
    CalibMethod.MinMax: "minmax",
    CalibMethod.MinMSE: "minmse",
    CalibMethod.Percentile: "percentile",
    CalibMethod.Entropy: "entropy",
    CalibMethod.LayerwisePercentile: "layerwise_percentile",
    CalibMethod.Distribution: "distribution",
}


def layer_rule(layer: QLayerConfig) -> LayerRule:
    """Returns what a layer configuration asks for, without saying for which layers.

    Raises:
        UnsupportedError: If a choice does not exist here yet.
    """
    activation = tensor_spec(layer.input_tensors, layer.input_tensors.calibration_method)
    weight = tensor_spec(layer.weight, weight_method(layer.weight))
    check_granularities(activation, weight)
    output = layer.output_tensors
    written = None if output is None else tensor_spec(output, output.calibration_method)
    if written is not None:
        check_granularities(written, weight)
    return LayerRule(
        activation=_change(activation),
        weight=_change(weight),
        bias=bias_kind(layer),
        output=None if written is None else _change(written),
    )


def check_granularities(activation: TensorSpec, weight: TensorSpec) -> None:
    """Makes sure that scales are as many as tensors can have where activations are quantized too.

    Raises:
        UnsupportedError: If activations are to have scales of channels or groups, or weights those of groups.
    """
    if "group" in (activation.granularity, weight.granularity):
        raise UnsupportedError(
            "granularity: expected Tensor or Channel beside quantized activations, got Group; weights alone "
            "have groups: WeightsOnly=True, UseGPTQ, UseMatMulNBits"
        )
    if activation.granularity == "channel":
        raise UnsupportedError("granularity: expected Tensor for activations, got Channel; weights may have channels")


def _change(spec: TensorSpec) -> Change:
    return Change(tuple(sorted(asdict(spec).items())))


def bias_kind(layer: QLayerConfig) -> BiasKind | None:
    """Returns what becomes of biases; None leaves it to the rest of the configuration.

    Raises:
        UnsupportedError: If the configuration is neither int32 nor that of the weight.
    """
    bias, weight = layer.bias, layer.weight
    if bias is None:
        return None
    if bias.data_type is Int32:
        return "int32"
    if (bias.data_type, bias.scale_type, bias.symmetric) == (weight.data_type, weight.scale_type, weight.symmetric):
        return "weight"
    raise UnsupportedError(f"QLayerConfig: bias: expected Int32Spec or what the weight has, got {bias!r}")


def is_power_of_two(config: QTensorConfig) -> bool:
    """Whether the scales of a tensor are powers of two."""
    return config.scale_type is ScaleType.PowerOf2


def weight_method(config: QTensorConfig) -> CalibMethod:
    """Returns the method for weights.

    They are all there, so Quark takes their extremes unless it searches (its specification, section 1.3).
    """
    searches = is_power_of_two(config) or config.calibration_method is CalibMethod.MinMSE
    return config.calibration_method if searches else CalibMethod.MinMax


def tensor_spec(config: QTensorConfig, calibration: CalibMethod) -> TensorSpec:
    """Returns the spec of a tensor whose range is found by `calibration`.

    Raises:
        UnsupportedError: If a choice does not exist here yet.
    """
    scale, method = _SCALES[config.scale_type], _METHODS[calibration]
    if is_power_of_two(config) and calibration is CalibMethod.MinMax:
        method = "nonoverflow"
    return make_spec(config.data_type.dtype, config.symmetric, _GRANULARITIES[config.quant_granularity], scale, method)
