"""Bias correction: biases make up for what rounded weights add to the mean of a layer's output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.algorithm import Algorithm, Context, Settings
from quarkfast.calibration.data import Feed
from quarkfast.config import Scheme
from quarkfast.evaluate.constant_trial import ConstantTrial, decibels
from quarkfast.evaluate.logits import judge_logits
from quarkfast.graph.external_constants import proto_and_folder, with_constants_as_inputs
from quarkfast.reconstruction import InputMeans, LinearLayer, linear_layers

__all__ = ["BIAS_CORRECTION", "BiasCorrectionSettings", "corrected_bias"]

# Weights of more bits leave means where they are: 16 take 48 dB less than 8.
_MOST_BITS = 8

# Bytes of weights up to which biases are tried: a second form of them is in memory beside the model.
_MOST_TRIED = 256 << 20


# Two whose means are taken, and one that judges.
_LEAST_SAMPLES = 3

# Numbers of a sample's outputs below which more samples are taken: errors of few numbers cancel by chance.
_FEW_OUTPUTS = 1000


@dataclass(frozen=True, slots=True)
class BiasCorrectionSettings:
    """Settings of bias correction. Every third sample is held apart, and judges what the means of the others give.

    Attributes:
        samples: Samples of models whose outputs have many numbers; at most a quarter of all.
        samples_of_few_outputs: Samples of others, such as classifiers; at most a third of all.
    """

    samples: int = 5
    samples_of_few_outputs: int = 21


def corrected_bias(bias: Any, weight: Any, layer: LinearLayer, mean: NDArray[np.float64]) -> NDArray[np.float32]:
    """Returns the bias with which a layer of rounded weights gives the mean output that its float weights give.

    ``b' = b + (W - W^) E[x]`` with `W` the float weights and ``W^`` those of the codes.

    Args:
        bias: The bias (`quarkfast.quantization.QuantizedTensor`).
        weight: The weight, likewise.
        layer: How it lies.
        mean: The mean of the rows that it multiplies, ``[groups, inputs]``.

    Source:
        M. Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019, section 4.2,
        with means of samples instead of those of a BatchNormalization.
    """
    wanted, got = (layer.to_rows(np.asarray(each, np.float64)) for each in (weight.values.numpy(), weight.decoded()))
    given = np.asarray(bias.values.numpy(), np.float64)
    missing = np.einsum("gmk,gk->gm", wanted - got, mean)
    corrected: NDArray[np.float32] = (given + missing.reshape(given.shape)).astype(np.float32)
    return corrected


def _run(context: Context, settings: BiasCorrectionSettings) -> bool:
    tensors = {slot.tensor: tensor for slot, tensor in (*context.plan.constants, *context.plan.biases)}
    layers = [
        layer
        for layer in linear_layers(context.model)
        if _is_narrow(tensors.get(layer.weight)) and _has_one_for_each_output(tensors.get(layer.bias or ""), layer)
    ]
    own = {name: tensors[name] for layer in layers for name in (layer.weight, str(layer.bias))}
    if not layers or not context.may_run_samples or sum(each.values.nbytes for each in own.values()) > _MOST_TRIED:
        return False
    samples, means, references = _seen(context, layers, settings)
    apart = list(range(2, len(samples), 3))
    fitting = [index for index in range(len(samples)) if index not in apart]
    corrected = {}
    for layer in layers:
        bias, mean = tensors[str(layer.bias)], means[layer.node][fitting].mean(axis=0)
        if np.isfinite(mean).all():
            corrected[str(layer.bias)] = bias.with_nearest(corrected_bias(bias, tensors[layer.weight], layer, mean))
    if not corrected:
        return False
    judges = [(samples[index], references[index]) for index in apart or fitting]
    return _keep_if_better(context, corrected, *_noise(context, own, corrected, judges))


def _keep_if_better(context: Context, corrected: Mapping[str, Any], before: float, after: float) -> bool:
    """Puts biases into the plan if these make less noise, and notes what came of it."""
    if not before > 0.0:
        return False
    measured = f"on samples held apart rounded weights alone leave {decibels(after)} instead of {decibels(before)}"
    if after < before:
        context.plan = context.plan.with_tensors(corrected)
        context.notes.append(f"bias correction of {len(corrected)} layers: {measured}")
    else:
        context.notes.append(f"bias correction was undone: {measured}")
    return after < before


def _is_integer(tensor: Any) -> bool:
    return tensor is not None and tensor.is_integer


def _has_one_for_each_output(bias: Any, layer: LinearLayer) -> bool:
    """Whether a bias is integer and not broadcast."""
    groups, outputs, _ = layer.matrix_shape
    return _is_integer(bias) and bias.values.size == groups * outputs


def _is_narrow(weight: Any) -> bool:
    return _is_integer(weight) and weight.limits[1] - weight.limits[0] < 1 << _MOST_BITS


def _seen(
    context: Context, layers: list[LinearLayer], settings: BiasCorrectionSettings
) -> tuple[list[Feed], dict[str, NDArray[np.float64]], list[list[Any]]]:
    """Returns samples, the means of inputs of layers on each, and the outputs of each: of more where these are few."""
    proto, folder = proto_and_folder(context.model)
    session = InputMeans(judge_logits(proto), folder, layers)
    samples = context.read_samples(min(settings.samples, max(context.samples // 4, _LEAST_SAMPLES)))
    means, outputs = session.run(samples)
    if sum(np.size(each) for each in outputs[0]) < _FEW_OUTPUTS:
        samples = context.read_samples(min(settings.samples_of_few_outputs, max(context.samples // 3, _LEAST_SAMPLES)))
        more, others = session.run(samples[len(outputs) :])
        means = {node: np.concatenate([rows, more[node]]) for node, rows in means.items()}
        outputs += others
    session.close()
    return samples, means, outputs


def _noise(
    context: Context, own: Mapping[str, Any], corrected: Mapping[str, Any], judges: list[tuple[Feed, list[Any]]]
) -> tuple[float, float]:
    """Returns the noise that weights and biases alone add to the outputs, without correction and with it.

    It is 0 and 0 where that cannot be judged.
    """
    # Before views of files exist, which it closes.
    proto, folder = proto_and_folder(with_constants_as_inputs(context.model, own))
    floats = {name: np.asarray(tensor.values.numpy()) for name, tensor in own.items()}
    decoded = {name: tensor.decoded() for name, tensor in own.items()}
    changed = {name: tensor.decoded() for name, tensor in corrected.items()}
    trial = ConstantTrial(judge_logits(proto), folder, floats, *zip(*judges, strict=True))
    found = (trial.noise(decoded), trial.noise(decoded | changed)) if trial.is_steady else (0.0, 0.0)
    trial.close()
    return found


def _settings(scheme: Scheme) -> Settings | None:
    if not scheme.bias_correction or scheme.bias == "float":
        return None
    if scheme.rounding != "nearest" and not _is_replaced(scheme):
        return None
    return BiasCorrectionSettings() if scheme.encoding == "qdq" else None


def _is_replaced(scheme: Scheme) -> bool:
    """Whether weight rounding gives biases anew: codes chosen beside biases that stay are to match the float ones."""
    return scheme.bias != "weight" and bool(dict(scheme.rounding_options).get("update_bias", True))


def _reread(settings: Any) -> int:
    return int(max(settings.samples, settings.samples_of_few_outputs))


BIAS_CORRECTION = Algorithm("bias correction", "codes", _settings, _run, reread=_reread)
