"""From Quark's ``QConfig`` to a scheme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quarkfast.config.options import apply_options
from quarkfast.config.quark.algorithm import CLEConfig, GPTQConfig, refuse_algorithms, refuse_beside_weights
from quarkfast.config.quark.assemble import make_scheme
from quarkfast.config.quark.blocks import block_rounding, block_with
from quarkfast.config.quark.extra_options import translated_options
from quarkfast.config.quark.finetuning import finetuned, finetuning_of
from quarkfast.config.quark.gptq import gptq_parameters, gptq_scheme, nbits_scheme
from quarkfast.config.quark.layer_rules import (
    bias_kind,
    check_granularities,
    is_power_of_two,
    layer_rule,
    tensor_spec,
    weight_method,
)
from quarkfast.config.quark.mixed_precision import mixed, mixing_of
from quarkfast.config.quark.qconfig import QConfig
from quarkfast.config.quark.smoothing import equalized_as_asked, rotated_as_asked, smoothed_as_asked
from quarkfast.config.quark.spec import QLayerConfig
from quarkfast.config.quark.whole_model import stored_as_asked, weights_alone, with_scales
from quarkfast.config.rules import LayerRule
from quarkfast.config.scheme import Scheme
from quarkfast.config.spec import TensorSpec
from quarkfast.errors import UnsupportedError
from quarkfast.formats import find
from quarkfast.formats.block import Rounding

__all__ = ["scheme_of_qconfig"]


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
    nbits = options.get("UseMatMulNBits")
    if gptq is not None or nbits:
        refuse_beside_weights(config.algo_config, () if nbits else (GPTQConfig,))
        scheme = nbits_scheme(options) if nbits else gptq_scheme(gptq or {}, options)
        scheme = finetuned(scheme, finetuning) if finetuning else scheme
        return stored_as_asked(scheme, options, _selection(config))
    if layer.output_tensors is not None and layer.output_tensors != layer.input_tensors:
        raise UnsupportedError("QConfig: output_tensors: expected the same as input_tensors in this version")
    activation, weight = _specs(layer, options)
    if options.get("WeightsOnly") is not True or activation.granularity == "group":
        check_granularities(activation, weight)
    npu_cnn = options.get("EnableNPUCnn", is_power_of_two(layer.input_tensors) and is_power_of_two(layer.weight))
    scheme = make_scheme(activation, weight, npu_cnn, options.get("ForceQuantizeNoInputCheck", False))
    dtypes = activation.dtype, weight.dtype
    # Quark fills in attributes for its MX formats only; BFP16 keeps the operator's default.
    kept = any(find(dtype).is_block and not find(dtype).operands_only for dtype in dtypes)
    default: Rounding = "half_away" if kept else "half_even"
    scheme = replace(scheme, block_rounding=block_rounding(dtypes, options, default))
    wanted = any(isinstance(each, CLEConfig) for each in config.algo_config or ())
    scheme = equalized_as_asked(scheme, config.algo_config, options, wanted=wanted)
    scheme = rotated_as_asked(weights_alone(scheme, options), config.algo_config, options)
    scheme = smoothed_as_asked(scheme, config.algo_config, options)
    if finetuning:
        scheme = finetuned(scheme, finetuning)
    mixing = {**mixing_of(config.algo_config), **(options.get("AutoMixprecision") or {})}
    scheme = mixed(scheme, mixing, options) if mixing else scheme
    bias = bias_kind(layer)
    translated = ({} if bias is None else {"bias": bias}) | translated_options(options, scheme)
    return with_scales(apply_options(scheme, {**translated, **_selection(config)}), options)


def _selection(config: QConfig) -> dict[str, Any]:
    """Returns the options that arguments about single layers amount to."""
    given: dict[str, Any] = {"exclude": list(config.exclude)} if config.exclude else {}
    if None in config.layer_type_config:
        given["exclude_op_types"] = list(config.layer_type_config[None])
    if rules := _layer_rules(config):
        given["layers"] = rules
    return given


def _specs(layer: QLayerConfig, options: Mapping[str, Any]) -> tuple[TensorSpec, TensorSpec]:
    """Returns the specs of activations and weights; keys of symmetry and of block formats win over the layer's."""
    found = [
        tensor_spec(layer.input_tensors, layer.input_tensors.calibration_method),
        tensor_spec(layer.weight, weight_method(layer.weight)),
    ]
    for index, key in enumerate(("ActivationSymmetric", "WeightSymmetric")):
        spec = found[index]
        if spec.is_block:
            found[index] = spec.with_type(block_with(spec.dtype, options))
        elif key in options and spec.format.is_integer:
            found[index] = replace(spec, symmetric=options[key])
    return found[0], found[1]


def _layer_rules(config: QConfig) -> list[LayerRule]:
    """Returns the rules for operator types, then those for nodes, which win (Quark's specification, section 1.3)."""
    rules = [
        replace(layer_rule(layer), op_types=tuple(types))
        for layer, types in config.layer_type_config.items()
        if layer is not None
    ]
    return rules + [
        replace(layer_rule(layer), nodes=tuple(names)) for layer, names in config.specific_layer_config.items()
    ]
