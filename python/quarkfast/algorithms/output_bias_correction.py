"""Output bias correction: biases make up for the mean error of their layers' outputs, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.algorithm import Algorithm, AlgorithmContext, Settings
from quarkfast.algorithms.bias_correction import are_few, bias_of
from quarkfast.algorithms.held_apart import split
from quarkfast.config import Policy, Scheme
from quarkfast.evaluate.judge import Counted, Judge
from quarkfast.evaluate.noise import Gains
from quarkfast.reconstruction import InputMeans, LinearLayer, Models, linear_layers
from quarkfast.reconstruction.input_means import mean_row
from quarkfast.reconstruction.walk import Feed, go_through
from quarkfast.wording import counted

__all__ = ["OUTPUT_BIAS_CORRECTION", "correct_output_biases"]


def correct_output_biases(context: AlgorithmContext, gain: float = 0.0, least: float = -math.inf) -> bool:
    """Gives each layer the bias under which its mean output is that of the float model, if the outputs gain by it.

    Rounded activations shift means too: what saturates, and what a curved function such as hard-swish or SiLU makes of
    noise. Each layer sees its input in the quantized model with the biases that the layers in front of it have now, and
    ``b' = b + W E[x] - W^ E[x^]`` with `x` and ``x^`` the inputs of both models. Samples held apart judge the outputs.

    Args:
        context: A plan with codes.
        gain: What outputs have to gain in the mean of the samples that judge, in dB; more than nothing in any case.
        least: What they have to have then, in dB.

    Returns:
        Whether the plan has other biases.

    Source:
        M. Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019, appendix D,
        empirical bias correction.
    """
    weights, biases = context.coded_weights(), context.movable_biases()
    layers = [each for each in linear_layers(context.model) if each.weight in weights and each.bias in biases]
    if not layers:
        context.notes.append("output bias correction was left out: no layer has a bias of its own with integer codes")
        return False
    if not context.has_real_samples:
        context.notes.append("output bias correction was left out: the samples are random")
        return False
    policy = context.scheme.policy
    samples = context.read_samples(2 * policy.output_bias_of_few)
    half = max(len(samples) // 2, 1)
    fitting, apart = split(samples, half, half, policy.apart_one_in)
    models = context.simulate([str(name) for layer in layers for name in (layer.weight, layer.bias)])
    changed: dict[str, Any] = {}

    def see(readers: Sequence[LinearLayer], paths: Sequence[Any]) -> Mapping[str, NDArray[np.float32]]:
        (layer,), (path,) = readers, paths
        mean = np.mean([mean_row(layer, path.input_of(layer, i)) for i in range(len(fitting))], axis=0)
        float_mean, name = float_means[layer.node], str(layer.bias)
        if not (np.isfinite(mean).all() and np.isfinite(float_mean).all()):
            return {}
        bias, weight = biases[name], weights[layer.weight]
        moved = bias_of(bias, weight, weight.decoded(), layer, mean, float_mean)
        changed[name] = bias.with_nearest(moved)
        return {name: changed[name].decoded()}

    def report(done: int) -> None:
        context.report(done, len(layers))

    float_means, few = _float_means(models, layers, fitting, policy)
    if not few:
        fitting, apart = fitting[: policy.output_bias_samples], apart[: policy.output_bias_apart]
    with Judge(models.float_model, apart, Counted(features=layers[-1].data), models.float_folder) as judge:
        before = judge.noise(models.quantized, models.quantized_folder).ratios()
        go_through(models, layers, fitting, see, both=False, report=report)
        gains = Gains(before, judge.noise(models.quantized, models.quantized_folder).ratios())
    if not gains.better() or gains.mean < gain or gains.after < least:
        context.notes.append(f"output bias correction was undone, for it made the model no better: {gains}")
        return False
    context.replace_codes(changed)
    context.notes.append(f"output bias correction of {counted(len(changed), 'layer')}: {gains}")
    return True


def _float_means(
    models: Models, layers: Sequence[LinearLayer], feeds: Sequence[Feed], policy: Policy
) -> tuple[dict[str, NDArray[np.float64]], bool]:
    """Returns the mean input of each layer in the float model, and whether outputs have few numbers.

    Where they have many, the first samples give the means.
    """
    session, enough = InputMeans(deepcopy(models.float_model), models.float_folder, layers), policy.output_bias_samples
    means, outputs = session.run(feeds[:enough])
    few = are_few(outputs[0], policy)
    if few and feeds[enough:]:
        more, _ = session.run(feeds[enough:])
        means = {node: np.concatenate([rows, more[node]]) for node, rows in means.items()}
    session.close()
    return {node: rows.mean(axis=0) for node, rows in means.items()}, few


def _settings(scheme: Scheme) -> Settings | None:
    wanted = scheme.output_bias_correction and scheme.encoding == "qdq" and scheme.rounding == "nearest"
    return scheme.policy if wanted else None


def _run(context: AlgorithmContext, policy: Policy) -> bool:
    return correct_output_biases(context)


def _reread(policy: Policy) -> int:
    return 2 * policy.output_bias_of_few


OUTPUT_BIAS_CORRECTION = Algorithm("output bias correction", "codes", _settings, _run, stage="round", reread=_reread)
