"""The steps that correct biases by the outputs where these turn out to be poor, and nobody has said whether to."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

from quarkfast.algorithms.output_bias_correction import correct_output_biases
from quarkfast.errors import ModelError
from quarkfast.graph.external import tensor_bytes
from quarkfast.pipeline.context import Context
from quarkfast.pipeline.simulate import clone_model
from quarkfast.pipeline.step import Step, run_steps

__all__ = ["correct_poor_outputs", "keep_unwritten", "may_correct_biases"]


def may_correct_biases(context: Context) -> bool:
    """Whether output bias correction may be tried: there are biases with codes, and nobody has said whether to."""
    scheme = context.scheme
    said = scheme.output_bias_correction or not scheme.bias_correction or scheme.strict
    nearest = scheme.rounding == "nearest"
    return context.uncorrected is not None and nearest and scheme.codes_biases and not said


def keep_unwritten(context: Context) -> bool:
    """Keeps the model and the plan as they are before pairs are written; changes nothing.

    They are kept where outputs will be measured.
    """
    small = not context.two_files and tensor_bytes(context.model) <= context.scheme.policy.tried_bytes
    if small and context.may_run_samples:
        context.unwritten = copy.copy(context)
        context.unwritten.model, context.unwritten.notes = clone_model(context.model), list(context.notes)
    return False


def correct_poor_outputs(context: Context, writing: Sequence[Step]) -> bool:
    """Corrects biases where an output is poor on the first sample, and writes the model once more.

    Samples held apart have to gain, and to be no longer poor then: else decibels say little.

    Args:
        context: A context with a model that is written, and the one that was kept before.
        writing: The steps between the two.
    """
    unwritten, context.unwritten, policy = context.unwritten, None, context.scheme.policy
    if unwritten is None or not context.outputs or context.outputs[0][1] >= policy.poor_bias_sqnr:
        return False
    fewest = policy.poor_least_samples
    if len(unwritten.read_samples(fewest)) < fewest or not _correct(unwritten):
        return False
    assert context.uncorrected is not None
    assert context.written is not None
    context.uncorrected.data, context.uncorrected.outputs = context.written.data, context.outputs
    name, ratio = context.outputs[0]
    unwritten.scheme = replace(unwritten.scheme, output_bias_correction=True)
    unwritten.notes.append(
        f"output bias correction was added, for output {name!r} had {ratio:.1f} dB; "
        "output_bias_correction=False leaves it out"
    )
    run_steps(writing, unwritten)
    context.become(unwritten)
    return True


def _correct(context: Context) -> bool:
    """Corrects biases if samples held apart gain by it, and the model can be run in parts."""
    try:
        with context.clock.stage("round"):
            policy = context.scheme.policy
            return correct_output_biases(context, policy.poor_bias_gain, policy.poor_bias_least)
    except ModelError:  # of what nobody asked for
        return False
