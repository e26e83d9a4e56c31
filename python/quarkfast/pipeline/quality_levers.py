"""The levers of a quality target that look at the model: what each changes of the best plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from quarkfast.config.options.changes import set_rounding, set_shift_activations
from quarkfast.config.rules import Change, TensorRule
from quarkfast.errors import ConfigError, UnsupportedError
from quarkfast.evaluate.constant_trial import decibels
from quarkfast.evaluate.pair_trial import PairTrial
from quarkfast.formats import FLOAT32, wider
from quarkfast.pipeline.float_nodes import nodes_left_float
from quarkfast.pipeline.further_equalization import equalized_further, further_equalization
from quarkfast.pipeline.louder_activations import LouderActivations
from quarkfast.pipeline.quality_goal import LEAST_GAIN
from quarkfast.pipeline.quality_ladder import Attempt, Ladder, Quantized
from quarkfast.pipeline.weight_precision_steps import forms_taken
from quarkfast.quantization import Records
from quarkfast.quantization.weight_precision import Effort, has_eight_bits
from quarkfast.wording import counted, first_names

__all__ = [
    "AIMS",
    "SPLITS",
    "choose_codes_again",
    "equalize_further",
    "give_more_bits_together",
    "improve_weights",
    "shift_activations",
    "shift_where_enough",
    "widen_activations",
]

_SHIFTING = "shift_activations=True"

# Samples of those that calibrate on which weights alone are judged.
_SEARCHED = 2

AIMS = (3.0, 6.0, 12.0, 24.0)
"""In dB above what there is, what the choice of tensors aims at, one after the other, where a metric is to be reached.

Each is twice the one before, since every try quantizes the model once more.
"""

# In dB, what equalization through gates has to bring for a Mul in front of each of them: what one bit more would. With
# less, codes that are chosen by outputs may have more without it: a table structure recognizer goes from 6.3 to 9.7 dB
# by it, and from 11.3 to 7.9 beside such codes.
_GAIN_OF_GATES = 6.0

# In dB, what a change may bring beyond its gain with nearest codes, beside codes that are chosen by outputs. Those take
# minutes to find.
_MORE_WITH_CODES = 3.0

SPLITS = 32
"""Halvings of a set of weights, with two runs of one sample each, by which those are found that get 16 bits."""


def equalize_further(ladder: Ladder) -> bool:
    """Equalizes layers with a gate or a Clip between them; returns whether that brought what it costs."""
    changed = equalized_further(ladder.model, ladder.plan.scheme, ladder.plan.target)
    if changed is None:
        return False
    plan = replace(ladder.plan, scheme=changed)
    gain = _GAIN_OF_GATES if dict(changed.equalize_options).get("through_gates") else LEAST_GAIN
    return ladder.pull(str(further_equalization(changed)), plan, gain=gain)


def shift_where_enough(ladder: Ladder) -> bool:
    """Subtracts offsets from activations with symmetric codes, and keeps that if it is enough.

    Codes of 16 bits have no use for offsets, and those of some tensors change what is best for the others.

    Returns:
        Whether offsets give any activation a smaller scale.
    """
    shifted = _shifted(ladder)
    if shifted is None:
        return False
    plain = ladder.quantize(shifted.plain)
    if plain.data == ladder.with_nearest_codes().data:
        return False
    if not _is_far(ladder, plain):
        ladder.pull(_SHIFTING, shifted, enough=True)
    return True


def shift_activations(ladder: Ladder) -> None:
    """Subtracts offsets from activations beside what other levers have changed."""
    shifted = _shifted(ladder)
    if shifted is not None:
        ladder.pull(_SHIFTING, shifted)


def _shifted(ladder: Ladder) -> Attempt | None:
    """Returns the best plan with offsets; None where there is no need or no use for them."""
    plan = ladder.plan
    if ladder.is_met or plan.scheme.strict:
        return None
    try:
        return replace(plan, scheme=set_shift_activations(plan.scheme, True))
    except ConfigError:  # the preset has no such codes
        return None


def _is_far(ladder: Ladder, changed: Quantized) -> bool:
    """Whether the best result lacks more than a change is likely to bring, by what it brings with nearest codes."""
    least = ladder.goal.min_sqnr
    if least is None or not ladder.plan.makes_up:
        return False
    gain = ladder.gain(ladder.with_nearest_codes(), changed)
    return ladder.best.quality.assured + gain + _MORE_WITH_CODES < least


def improve_weights(ladder: Ladder) -> Effort | None:
    """Gives weights other forms that the target takes, where they take more than half of what outputs may lose.

    Returns:
        How far it went; None where it was not tried.
    """
    plan = ladder.plan
    scheme = plan.scheme
    may = not scheme.strict and has_eight_bits(scheme.weight) and forms_taken(scheme, plan.target)
    if ladder.is_met or not may:
        return None
    most = 10 ** (-ladder.aim(AIMS[0]) / 10) / 2
    plain = ladder.with_nearest_codes()
    with ladder.clock.stage("choose tensors"):
        trial = PairTrial(plain.data, ladder.reference, ladder.calibration[:_SEARCHED])
        found = trial.noise(())
        trial.close()
    if found <= most:
        return None
    share = ladder.goal.largest_share
    effort = Effort(most, gain=1.0, splits=SPLITS, logits=True, of_worst=True, largest_share=share)
    ladder.pull(f"weights that alone leave {decibels(most)}", replace(plan, effort=effort))
    return effort


def widen_activations(ladder: Ladder) -> Attempt | None:
    """Gives more bits to the activations that take most from the outputs, to more of them until that is enough.

    Where these are float32, or the target does not take the wider type, the nodes around them stay float.

    Returns:
        The last plan that was tried; None without any.
    """
    plan, tried = ladder.plan, None
    wide, target = wider(plan.scheme.activation.dtype), plan.target
    if ladder.is_met or wide is None:
        return None
    floats = wide == FLOAT32.name
    takes = not floats and (not target.activation_types or wide in target.activation_types)
    if not takes and not floats:
        ladder.notes.append(f"{ladder.goal.name}: {target.name} takes no {wide} activations")
    plain = ladder.with_nearest_codes()
    with ladder.clock.stage("choose tensors"):
        records, share = plain.summary.records or Records(), ladder.goal.largest_share
        given = (ladder.reference, ladder.calibration, ladder.tensors, share, plan.few_bits)
        louder = LouderActivations(plain.data, records, *given)
    before: set[str] = set()
    for aim in _aims(ladder):
        with ladder.clock.stage("choose tensors", louder.runs) as report:
            names, share = louder.choose(aim, report)
        louder.close()  # it takes as much memory as a quantization
        if before >= set(names):
            continue
        pulled = _widen(ladder, plan, names, share, wide) if takes else _leave_float(ladder, plan, names, plain)
        tried = pulled or tried
        if pulled is None or ladder.is_met or ladder.goal.metric is None:
            break
        before = set(names)
    return tried


def _aims(ladder: Ladder) -> Iterator[float]:
    """Yields the ratios in dB to choose activations for, until that changes anything or, with a metric, is enough.

    The few samples that choose may have more than is wanted where those that are judged have less.
    """
    least = ladder.aim(0.0)
    if ladder.goal.min_sqnr is not None:
        yield least
    for more in AIMS:
        yield ladder.aim(more) if ladder.goal.min_sqnr is None else least + more


def _widen(ladder: Ladder, plan: Attempt, names: Sequence[str], share: float, wide: str) -> Attempt | None:
    """Returns the plan that was pulled; None if there was nothing to widen, or the target does not take it."""
    scheme = plan.scheme
    own = {rule.tensor for rule in scheme.tensors}
    rules = tuple(TensorRule(name, Change.of({"dtype": wide}, "tensors")) for name in names if name not in own)
    if not rules:
        return None
    shown = first_names(rule.tensor for rule in rules)
    widened = replace(plan, scheme=replace(scheme, tensors=(*scheme.tensors, *rules)))
    try:
        ladder.pull(
            f"{wide} for {counted(len(rules), 'activation')} ({shown}; {100 * share:.0f} % of their bytes)", widened
        )
    except (ConfigError, UnsupportedError) as error:
        ladder.notes.append(f"{ladder.goal.name}: {plan.target.name} takes no {wide} activations: {error}")
        return None
    return widened


def _leave_float(ladder: Ladder, plan: Attempt, names: Sequence[str], plain: Quantized) -> Attempt | None:
    """Leaves nodes float so that activations need no codes; returns the plan that was pulled, if there are any."""
    with ladder.clock.stage("choose tensors"):
        records = plain.summary.records or Records()
        given = (names, ladder.calibration[0], ladder.goal.largest_share, plan.few_bits)
        nodes = nodes_left_float(plain.data, records, *given)
    if not nodes:
        return None
    exclude = (*plan.scheme.exclude, *(f"^{re.escape(name)}" for name in nodes))
    left = replace(plan, scheme=replace(plan.scheme, exclude=exclude))
    ladder.pull(f"float for {counted(len(nodes), 'node')} ({first_names(nodes)})", left)
    return left


def give_more_bits_together(ladder: Ladder, effort: Effort, widened: Attempt) -> None:
    """Gives weights and activations more bits at once, where one alone drowned in the noise of the other.

    Args:
        ladder: The ladder.
        effort: What :func:`improve_weights` tried.
        widened: What :func:`widen_activations` tried.
    """
    both = replace(widened, effort=effort)
    if not ladder.is_met and not ladder.has_tried(both):
        ladder.pull("both together", both)


def choose_codes_again(ladder: Ladder) -> None:
    """Chooses codes by outputs beside what other levers have changed, where they were no help before these.

    Codes that make up for what 8-bit activations lose are fitted to that noise; with less of it they are nearer to what
    other samples want.
    """
    plan = ladder.plan
    if ladder.is_met or plan.scheme.rounding != "nearest":
        return
    chosen = replace(plan, scheme=set_rounding(plan.scheme, "descent"))
    if not ladder.has_tried(chosen):
        ladder.pull("rounding=descent", chosen)
