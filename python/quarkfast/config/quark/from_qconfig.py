"""From Quark's ``QConfig`` to a scheme."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from quarkfast.config.options import apply_options
from quarkfast.config.quark.algorithm import CLEConfig, GPTQConfig, refuse_algorithms
from quarkfast.config.quark.assemble import equalized, make_scheme, make_spec
from quarkfast.config.quark.blocks import block_rounding
from quarkfast.config.quark.enums import CalibMethod, QuantGranularity, ScaleType
from quarkfast.config.quark.extra_options import translated_options
from quarkfast.config.quark.finetuning import finetuned, finetuning_of
from quarkfast.config.quark.gptq import gptq_parameters, gptq_scheme
from quarkfast.config.quark.nbits import nbits_scheme
from quarkfast.config.quark.qconfig import QConfig
from quarkfast.config.quark.spec import QLayerConfig, QTensorConfig
from quarkfast.config.rules import Change, LayerRule
from quarkfast.config.scheme import Scheme
from quarkfast.config.spec import TensorSpec
from quarkfast.errors import UnsupportedError
from quarkfast.formats import find
from quarkfast.formats.block import Rounding

__all__ = ["scheme_of_qconfig"]

_SCALES = {ScaleType.Float32: "float32", ScaleType.PowerOf2: "power_of_two", ScaleType.Int16: "int16"}
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


def scheme_of_qconfig(config: QConfig) -> Scheme:
    """Return the scheme that a ``QConfig`` amounts to.

    Raises:
        UnsupportedError: it asks for what does not exist here yet.
        ConfigError: an option is unknown.
    """
    layer, options = config.global_config, config.extra_options
    finetuning = {**finetuning_of(config.algo_config), **(options.get("FastFinetune") or {})}
    gptq = gptq_parameters(config.algo_config, options)
    refuse_algorithms([each for each in config.algo_config or () if not isinstance(each, GPTQConfig)])
    if gptq is not None and not options.get("UseMatMulNBits"):
        selection = {"exclude": list(config.exclude)} if config.exclude else {}
        scheme = gptq_scheme(gptq, options)
        return apply_options(finetuned(scheme, finetuning) if finetuning else scheme, selection)
    if options.get("UseMatMulNBits"):
        return finetuned(nbits_scheme(options), finetuning) if finetuning else nbits_scheme(options)
    if layer.output_tensors is not None and layer.output_tensors != layer.input_tensors:
        raise UnsupportedError("QConfig: output_tensors: expected the same as input_tensors in this version")
    activation = _tensor_spec(layer.input_tensors, layer.input_tensors.calibration_method)
    weight = _tensor_spec(layer.weight, _weight_method(layer.weight))
    npu_cnn = options.get("EnableNPUCnn", _is_power_of_two(layer.input_tensors) and _is_power_of_two(layer.weight))
    scheme = make_scheme(activation, weight, npu_cnn, options.get("ForceQuantizeNoInputCheck", False))
    dtypes = activation.dtype, weight.dtype
    # Quark fills in attributes for its MX formats only; BFP16 keeps the operator's default.
    kept = any(find(dtype).is_block and not find(dtype).operands_only for dtype in dtypes)
    default: Rounding = "half_away" if kept else "half_even"
    scheme = replace(scheme, block_rounding=block_rounding(dtypes, options, default))
    scheme = equalized(scheme, any(isinstance(each, CLEConfig) for each in config.algo_config or ()))
    if finetuning:
        scheme = finetuned(scheme, finetuning)
    given: dict[str, Any] = {"exclude": list(config.exclude)} if config.exclude else {}
    if None in config.layer_type_config:
        given["exclude_op_types"] = list(config.layer_type_config[None])
    if rules := _layer_rules(config):
        given["layers"] = rules
    return apply_options(scheme, {**translated_options(options), **given})


def _layer_rules(config: QConfig) -> list[LayerRule]:
    """Returns the rules for operator types, then those for nodes, which win (Quark's specification, section 1.3)."""
    rules = [
        replace(_layer_rule(layer), op_types=tuple(types))
        for layer, types in config.layer_type_config.items()
        if layer is not None
    ]
    return rules + [
        replace(_layer_rule(layer), nodes=tuple(names)) for layer, names in config.specific_layer_config.items()
    ]


def _layer_rule(layer: QLayerConfig) -> LayerRule:
    inputs = _change(_tensor_spec(layer.input_tensors, layer.input_tensors.calibration_method))
    output = layer.output_tensors
    return LayerRule(
        activation=inputs,
        weight=_change(_tensor_spec(layer.weight, _weight_method(layer.weight))),
        output=None if output is None else _change(_tensor_spec(output, output.calibration_method)),
    )


def _change(spec: TensorSpec) -> Change:
    return Change(tuple(sorted(asdict(spec).items())))


def _is_power_of_two(config: QTensorConfig) -> bool:
    return config.scale_type is ScaleType.PowerOf2


def _weight_method(config: QTensorConfig) -> CalibMethod:
    """Weights are all there, so Quark takes their extremes unless it searches (its specification, section 1.3)."""
    searches = _is_power_of_two(config) or config.calibration_method is CalibMethod.MinMSE
    return config.calibration_method if searches else CalibMethod.MinMax


def _tensor_spec(config: QTensorConfig, calibration: CalibMethod) -> TensorSpec:
    scale, method = _SCALES[config.scale_type], _METHODS[calibration]
    if _is_power_of_two(config) and calibration is CalibMethod.MinMax:
        method = "nonoverflow"
    return make_spec(config.data_type.dtype, config.symmetric, _GRANULARITIES[config.quant_granularity], scale, method)
