"""Bias correction: biases make up for what rounded weights add to the mean of a layer's output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.algorithm import Algorithm, AlgorithmContext, Settings
from quarkfast.config import Policy, Scheme
from quarkfast.errors import ModelError
from quarkfast.evaluate.constant_trial import Constants, ConstantTrial, decibels
from quarkfast.evaluate.logits import judge_also, judge_logits
from quarkfast.evaluate.partial_model import Feed
from quarkfast.evaluate.ranked_outputs import judge_unranked
from quarkfast.graph.access import array_of_tensor
from quarkfast.graph.external import tensor_bytes
from quarkfast.graph.external_constants import proto_and_folder, with_constants_as_inputs
from quarkfast.reconstruction import InputMeans, LinearLayer, linear_layers
from quarkfast.wording import counted

__all__ = ["BIAS_CORRECTION", "are_few", "bias_of", "corrected_bias"]

# Those that have weights with codes beside biases, as far as weights are not all that they store.
_ENCODINGS = frozenset({"qdq", "dynamic"})


def corrected_bias(
    bias: Any, weight: Any, rounded: NDArray[np.float32], layer: LinearLayer, mean: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Returns the bias with which a layer of rounded weights gives the mean output that its float weights give.

    ``b' = b + (W - W^) E[x]`` with `W` the float weights and ``W^`` those of the codes.

    Args:
        bias: The bias (`quarkfast.quantization.QuantizedTensor`).
        weight: The weight, likewise.
        rounded: What its codes stand for.
        layer: How it lies.
        mean: The mean of the rows that it multiplies, ``[groups, inputs]``.

    Source:
        M. Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019, section 4.2,
        with means of samples instead of those of a BatchNormalization.
    """
    return bias_of(bias, weight, rounded, layer, mean, mean)


def bias_of(
    bias: Any,
    weight: Any,
    rounded: NDArray[np.float32],
    layer: LinearLayer,
    mean: NDArray[np.float64],
    float_mean: NDArray[np.float64],
) -> NDArray[np.float32]:
    """Returns the bias under which the mean output of a layer in the quantized model is that of the float model.

    Args:
        bias: The bias.
        weight: The weight, whose float values are the float model's.
        rounded: What the weight's codes in the quantized model stand for.
        layer: How it lies.
        mean: The mean of the rows that it multiplies in the quantized model, ``[groups, inputs]``.
        float_mean: The same in the float model.
    """
    wanted, got = (layer.to_rows(np.asarray(each, np.float64)) for each in (array_of_tensor(weight.values), rounded))
    missing = np.einsum("gmk,gk->gm", wanted, float_mean) - np.einsum("gmk,gk->gm", got, mean)
    given = np.asarray(array_of_tensor(bias.values), np.float64)
    moved: NDArray[np.float32] = (given + missing.reshape(given.shape)).astype(np.float32)
    return moved


def _run(context: AlgorithmContext, policy: Policy) -> bool:
    if not context.scheme.weights_only and context.scheme.encoding != "dynamic":
        return _correct(context, policy)
    if tensor_bytes(context.model) > policy.run_bytes:
        return False
    try:
        return _correct(context, policy)
    except ModelError as error:  # of a model that is quantized without being run
        context.notes.append(f"bias correction was left out: {error}")
        return False


def _correct(context: AlgorithmContext, policy: Policy) -> bool:
    """Gives layers other biases. The third sample is the holdout, and judges what the means of the others give."""
    weights, biases = context.coded_weights(), context.movable_biases()
    layers = [
        layer
        for layer in linear_layers(context.model, added=context.scheme.weights_only)
        if _is_narrow(weights.get(layer.weight), policy)
        and _has_one_for_each_output(biases.get(layer.bias or ""), layer)
    ]
    tensors = {**weights, **biases}
    own = {name: tensors[name] for layer in layers for name in (layer.weight, str(layer.bias))}
    is_large = sum(each.values.nbytes for each in own.values()) > policy.tried_bytes
    if not layers or is_large or not context.may_run_samples:
        return False
    first, others = _samples(context, policy)
    judge = policy.bias_first
    fitting, judges = first[:judge] + first[judge + 1 :], first[judge : judge + 1]
    means, few = _means(context, layers, fitting, others[: policy.bias_more])
    decoded, corrected = {name: tensor.decoded() for name, tensor in own.items()}, {}
    for layer in layers:
        bias, mean = tensors[str(layer.bias)], means[layer.node]
        if np.isfinite(mean).all():
            weight, rounded = tensors[layer.weight], decoded[layer.weight]
            corrected[str(layer.bias)] = bias.with_nearest(corrected_bias(bias, weight, rounded, layer, mean))
    if not corrected:
        return False
    judges += others[policy.bias_more :] if few else []
    changed = decoded | {name: tensor.decoded() for name, tensor in corrected.items()}
    noise = _noise(context, own, (decoded, changed), judges or fitting, layers[-1].data if few else "")
    kept = _keep_if_better(context, corrected, *noise)
    context.input_means = means if kept else {}
    return kept


def _keep_if_better(context: AlgorithmContext, corrected: Mapping[str, Any], before: float, after: float) -> bool:
    """Puts biases into the plan if these make less noise, and notes what came of it."""
    if not before > 0.0:
        return False
    measured = (
        f"with rounded weights alone outputs go from {decibels(before)} to {decibels(after)} on samples held apart"
    )
    if after < before:
        context.replace_codes(corrected)
        context.notes.append(f"bias correction of {counted(len(corrected), 'layer')}: {measured}")
    else:
        context.notes.append(f"bias correction was undone: {measured}")
    return after < before


def _has_one_for_each_output(bias: Any, layer: LinearLayer) -> bool:
    """Whether a bias is not broadcast."""
    groups, outputs, _ = layer.matrix_shape
    return bias is not None and bool(bias.values.size == groups * outputs)


def _is_narrow(weight: Any, policy: Policy) -> bool:
    return weight is not None and weight.is_integer and weight.limits[1] - weight.limits[0] < 1 << policy.narrow_bits


def _samples(context: AlgorithmContext, policy: Policy) -> tuple[list[Feed], list[Feed]]:
    """Returns the first samples, and others for a model of few outputs."""
    count, most = policy.bias_samples, _reread(policy)
    if context.samples:  # which have given ranges
        count = min(count, max(context.samples // policy.bias_one_in, policy.bias_first + 1))
        most = max(count, min(most, context.samples // policy.bias_all_one_in))
    found = context.read_samples(most)
    return found[:count], found[count:]


def _means(
    context: AlgorithmContext, layers: list[LinearLayer], samples: list[Feed], others: list[Feed]
) -> tuple[dict[str, NDArray[np.float64]], bool]:
    """Returns the mean inputs of layers, and whether the outputs have few numbers: then those of `others` count too."""
    proto, folder = proto_and_folder(context.model)
    session = InputMeans(judge_logits(judge_unranked(proto)), folder, layers)
    means, outputs = session.run(samples)
    few = are_few(outputs[0], context.scheme.policy)
    if few and others:
        more, _ = session.run(others)
        means = {node: np.concatenate([rows, more[node]]) for node, rows in means.items()}
    session.close()
    return {node: rows.mean(axis=0) for node, rows in means.items()}, few


def are_few(outputs: Sequence[Any], policy: Policy) -> bool:
    """Whether a sample's outputs have few numbers, so that more samples are to judge."""
    return sum(each.size for each in outputs if isinstance(each, np.ndarray)) < policy.few_outputs


def _noise(
    context: AlgorithmContext,
    own: Mapping[str, Any],
    kinds: tuple[Constants, Constants],
    judges: list[Feed],
    features: str,
) -> tuple[float, float]:
    """Returns the noise that weights and biases alone add to the outputs, in each of two kinds.

    Where there are `features`, which the last layer reads, it is the mean of theirs and the outputs': of few numbers
    errors cancel by chance. It is 0 and 0 where that cannot be judged.
    """
    # Before views of files exist, which it closes.
    proto, folder = proto_and_folder(with_constants_as_inputs(context.model, own))
    floats = {name: array_of_tensor(tensor.values) for name, tensor in own.items()}
    trial = ConstantTrial(judge_also(judge_logits(judge_unranked(proto)), features), folder, floats, judges)
    found = trial.compare(*kinds, context.scheme.policy) if trial.is_steady else (0.0, 0.0)
    trial.close()
    return found


def _settings(scheme: Scheme) -> Settings | None:
    if not scheme.bias_correction or (scheme.rounding != "nearest" and not _is_replaced(scheme)):
        return None
    return scheme.policy if scheme.encoding in _ENCODINGS or scheme.weights_only else None


def _is_replaced(scheme: Scheme) -> bool:
    """Whether weight rounding gives biases anew: codes chosen beside biases that stay are to match the float ones."""
    return bool(dict(scheme.rounding_options).get("update_bias", True))


def _reread(policy: Policy) -> int:
    return policy.bias_samples + policy.bias_more + policy.bias_judges


BIAS_CORRECTION = Algorithm("bias correction", "codes", _settings, _run, reread=_reread)
