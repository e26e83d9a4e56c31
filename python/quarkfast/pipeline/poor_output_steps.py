"""The steps that correct biases by the outputs where these turn out to be poor, and nobody has said whether to."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

from quarkfast.algorithms.output_bias_correction import OutputBiasCorrectionSettings, correct_output_biases
from quarkfast.errors import ModelError
from quarkfast.graph.external import tensor_bytes
from quarkfast.pipeline.context import Context
from quarkfast.pipeline.simulate import clone_model
from quarkfast.pipeline.step import Step, run_steps

__all__ = ["correct_poor_outputs", "keep_unwritten", "may_correct_biases"]

# Decibels of the worst output on the first sample below which it is tried: noise of a tenth of the amplitude.
_TRIED_BELOW = 20.0

# In dB, what samples held apart have to gain, and to have then: where outputs remain poor, decibels say little. A text
# recognizer in XINT8, of which these have 2.5 and then 8.6, reads 63 % of its words without it, and 48 % with it. Of 42
# pairs of a network and a preset that are tried, 15 keep it, and other samples gain 0 to 6 dB in these.
_SETTINGS = OutputBiasCorrectionSettings(gain=1.0, least=10.0)

# Fewer samples than this tell nothing of others.
_FEWEST = 8

# Bytes of constants up to which a plan is kept beside the model that is written from it.
_MOST_KEPT = 256 << 20


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
    small = not context.two_files and tensor_bytes(context.model) <= _MOST_KEPT
    if small and context.may_run_samples:
        context.unwritten = copy.copy(context)
        context.unwritten.model, context.unwritten.notes = clone_model(context.model), list(context.notes)
    return False


def correct_poor_outputs(context: Context, writing: Sequence[Step]) -> bool:
    """Corrects biases where an output has less than 20 dB on the first sample, and writes the model once more.

    Samples held apart have to gain 1 dB, and to have 10 dB then.

    Args:
        context: A context with a model that is written, and the one that was kept before.
        writing: The steps between the two.
    """
    unwritten, context.unwritten = context.unwritten, None
    if unwritten is None or not context.outputs or context.outputs[0][1] >= _TRIED_BELOW:
        return False
    if len(unwritten.read_samples(_FEWEST)) < _FEWEST or not _correct(unwritten):
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
            return correct_output_biases(context, _SETTINGS)
    except ModelError:  # of what nobody asked for
        return False
