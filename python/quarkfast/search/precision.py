"""Levers that give more bits to the weights and activations that take most from the outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from quarkfast.config.rules import Change, TensorRule
from quarkfast.evaluate.constant_trial import decibels
from quarkfast.evaluate.pair_trial import PairTrial
from quarkfast.formats import FLOAT32, wider
from quarkfast.pipeline.float_nodes import nodes_left_float
from quarkfast.pipeline.weight_precision_steps import forms_taken
from quarkfast.quantization import Records
from quarkfast.quantization.weight_precision import Effort, has_eight_bits
from quarkfast.search.activation_sensitivity import ActivationSensitivity
from quarkfast.search.job import Attempt, Made
from quarkfast.search.quality_goal import QualityGoal, goal_of
from quarkfast.search.search import Candidate, Search
from quarkfast.wording import counted, first_names

__all__ = [
    "activation_precision",
    "both_precisions",
    "may_raise_weights",
    "stored_weight_precision",
    "weight_precision",
]

# How often the first aim above what there is is doubled, where a metric is to be reached.
_DOUBLED = 3


def _aim(search: Search, more: float) -> float:
    """Returns the ratio in dB to choose tensors for: the least that is wanted, or `more` than there is."""
    found, least = search.current.quality, goal_of(search).min_sqnr
    if least is None or found.assured >= least:
        return found.worst + more
    return least + max(search.policy.search_margin, found.doubt)


def _aims_above(search: Search) -> list[float]:
    """Returns the ratios in dB above what there is that are aimed at, one after the other."""
    return [search.policy.search_aim * 2**times for times in range(_DOUBLED + 1)]


def _effort(search: Search, most: float, share: float) -> Effort:
    splits, policy = search.policy.search_halvings, search.policy
    return Effort(most, 1, splits, logits=True, of_worst=True, largest_share=share, policy=policy)


def may_raise_weights(search: Search) -> bool:
    """Whether weights have 8 bits, and the target takes another form of them."""
    scheme = search.attempt.scheme
    return has_eight_bits(scheme.weight) and bool(forms_taken(scheme, search.attempt.target))


def weight_precision(search: Search) -> Iterator[Candidate]:
    """Gives weights other forms that the target takes, where they take more than half of what outputs may lose."""
    most = 10 ** (-_aim(search, search.policy.search_aim) / 10) / 2
    plain = search.with_nearest_codes()
    with search.job.clock.stage("choose tensors"):
        trial = PairTrial(plain.data, search.reference, search.calibration[: search.policy.search_weight_samples])
        found = trial.noise(())
        trial.close()
    if found <= most:
        return
    search.effort = _effort(search, most, goal_of(search).largest_share)
    label = f"weights that alone leave {decibels(most)}"
    yield Candidate(label, replace(search.attempt, effort=search.effort))


def activation_precision(search: Search) -> Iterator[Candidate]:
    """Gives more bits to the activations that take most from the outputs, to more of them until that is enough.

    Where these are float32, or the target does not take the wider type, the nodes around them stay float.
    """
    attempt, goal = search.attempt, goal_of(search)
    wide, target = wider(attempt.scheme.activation.dtype), attempt.target
    if wide is None:
        return
    floats = wide == FLOAT32.name
    takes = not floats and (not target.activation_types or wide in target.activation_types)
    refused = f"{goal.name}: {target.name} takes no {wide} activations"
    if not takes and not floats:
        search.notes.append(refused)
    plain = search.with_nearest_codes()
    with search.job.clock.stage("choose tensors"):
        found = ActivationSensitivity(search, plain, goal.largest_share, attempt.few_bits)
    before: set[str] = set()
    for aim in _aims(search, goal):
        with search.job.clock.stage("choose tensors", found.runs) as report:
            names, share = found.choose(aim, report)
        found.close()  # it takes as much memory as a quantization
        if before >= set(names):
            continue
        widened = _widened(attempt, names, share, wide) if takes else _left_float(search, goal, names, plain)
        if widened is None:
            return
        tried = len(search.tried)
        yield replace(widened, refused=refused if takes else "")
        if len(search.tried) == tried:
            return
        search.widened = widened.attempt
        if search.is_met or goal.metric is None:
            return
        before = set(names)


def _aims(search: Search, goal: QualityGoal) -> Iterator[float]:
    """Yields the ratios in dB to choose activations for, until that changes anything or, with a metric, is enough.

    The few samples that choose may have more than is wanted where those that are judged have less.
    """
    least = _aim(search, 0.0)
    if goal.min_sqnr is not None:
        yield least
    for more in _aims_above(search):
        yield _aim(search, more) if goal.min_sqnr is None else least + more


def _widened(attempt: Attempt, names: Sequence[str], share: float, wide: str) -> Candidate | None:
    """Returns the attempt with a wider type for activations; None where there is nothing to widen."""
    scheme = attempt.scheme
    own = {rule.tensor for rule in scheme.tensors}
    rules = tuple(TensorRule(name, Change.of({"dtype": wide}, "tensors")) for name in names if name not in own)
    if not rules:
        return None
    shown = first_names(rule.tensor for rule in rules)
    label = f"{wide} for {counted(len(rules), 'activation')} ({shown}; {100 * share:.0f} % of their bytes)"
    return Candidate(label, replace(attempt, scheme=replace(scheme, tensors=(*scheme.tensors, *rules))))


def _left_float(search: Search, goal: QualityGoal, names: Sequence[str], plain: Made) -> Candidate | None:
    """Returns the attempt with nodes left float so that activations need no codes; None without any."""
    attempt = search.attempt
    with search.job.clock.stage("choose tensors"):
        records = plain.summary.records or Records()
        given = (names, search.calibration[0], goal.largest_share, attempt.few_bits)
        nodes = nodes_left_float(plain.data, records, *given)
    if not nodes:
        return None
    exclude = (*attempt.scheme.exclude, *(f"^{re.escape(name)}" for name in nodes))
    left = replace(attempt, scheme=replace(attempt.scheme, exclude=exclude))
    return Candidate(f"float for {counted(len(nodes), 'node')} ({first_names(nodes)})", left)


def both_precisions(search: Search) -> Iterator[Candidate]:
    """Gives weights and activations more bits at once, where one alone drowned in the noise of the other."""
    if search.effort is not None and search.widened is not None:
        both = replace(search.widened, effort=search.effort)
        if not search.has_tried(both):
            yield Candidate("both together", both)


def stored_weight_precision(search: Search) -> Iterator[Candidate]:
    """Stores weights in more bits that cost the outputs most; beside activations of 8 bits their layers stay float.

    They are chosen with the nearest codes. What codes that are chosen by outputs bring beyond these is taken off. Where
    the samples that choose say that few weights matter, and others that they do, as many have more bits in the end as
    may.
    """
    attempt, goal, plain = search.attempt, goal_of(search), search.with_nearest_codes()
    gained, share, seen = search.gain(plain, search.current.made), goal.largest_share, {plain.data}

    def changing(label: str, effort: Effort) -> Iterator[Candidate]:
        """Yields a candidate where weights change by it; codes chosen by outputs take longer than to see that."""
        widened = replace(attempt, effort=effort)
        changed = plain.data if search.is_met else search.make(widened.plain).data
        if changed not in seen:
            seen.add(changed)
            yield Candidate(label, widened)

    for wanted in _wanted(search, goal):
        most = 10 ** ((gained - wanted) / 10)
        yield from changing(f"weights that alone leave {decibels(most)}", _effort(search, most, share))
    if len(seen) == 1 and attempt.scheme.weight.format.bits < 8:
        yield from changing("no weights of fewer than 8 bits", _effort(search, 0.0, 0.0))
    yield from changing("more bits for as many weights as may have them", _effort(search, 0.0, share))


def _wanted(search: Search, goal: QualityGoal) -> list[float]:
    """Returns the ratios in dB to choose weights for, one after the other.

    Those that choose are other samples than those that are judged, and other weights than those with codes that are
    chosen by outputs may matter to them.
    """
    if goal.min_sqnr is None:
        return [_aim(search, more) for more in _aims_above(search)]
    return [_aim(search, 0.0) + more for more in (0.0, *_aims_above(search))]
