"""What judges ranges of activations: the outputs of a model in which activations are rounded and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from quarkfast.algorithms.algorithm import AlgorithmContext
from quarkfast.evaluate.sample_noise import SampleNoise, TriedForm
from quarkfast.reconstruction import linear_layers

__all__ = ["activation_judge", "may_judge_activations"]


def may_judge_activations(context: AlgorithmContext) -> bool:
    """Whether there are real samples, layers to feed, and room for the model beside itself."""
    constants = context.model.graph.initializers.values()
    size = sum(each.const_value.nbytes for each in constants if each.const_value)
    few = size <= context.scheme.policy.tried_bytes
    return context.may_run_samples and few and any(True for _ in linear_layers(context.model))


def activation_judge(context: AlgorithmContext, forms: Sequence[TriedForm]) -> SampleNoise:
    """Returns what judges forms of a model, at its outputs and in front of its last layer.

    Args:
        context: A plan with scales.
        forms: From `AlgorithmContext.simulate_activations`.
    """
    features = list(linear_layers(context.model))[-1].data
    return SampleNoise(*context.float_reference(), features, forms)
