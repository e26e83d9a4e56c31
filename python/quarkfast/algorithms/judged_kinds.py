"""A choice among kinds of ranges of activations by samples, to which others, held apart, may object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.activation_noise import activation_judge
from quarkfast.algorithms.algorithm import AlgorithmContext
from quarkfast.config import Policy
from quarkfast.evaluate.noise import Gains
from quarkfast.evaluate.partial_model import Feed
from quarkfast.evaluate.sample_noise import SampleNoise, TriedForm

__all__ = ["Chosen", "judge_kinds"]

Noises = NDArray[np.float64]
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class Chosen(Generic[_Kind]):
    """The kind that was chosen.

    Attributes:
        kind: Of those that were tried; None for what is there.
        gains: How much less noise it leaves than what is there, on the holdout.
        samples: How many that is.
        objection: The standard errors below nothing from which on these object.
    """

    kind: _Kind | None
    gains: Gains = field(default_factory=lambda: Gains.of_noise(*np.zeros((2, 0))))
    samples: int = 0
    objection: float = 0.0

    @property
    def is_worse(self) -> bool:
        """Whether samples held apart show that it is worse than what is there."""
        return self.gains.size > 1 and self.gains.worse(errors=self.objection)

    @property
    def measured(self) -> str:
        """The gain, in words."""
        return f"{self.gains.mean:.1f} dB in the mean of {self.samples} samples held apart"


def judge_kinds(
    context: AlgorithmContext,
    forms: Mapping[_Kind | None, TriedForm],
    feeds: Sequence[Feed],
    first: _Kind,
    policy: Policy,
) -> Chosen[_Kind] | None:
    """Returns the kind of least noise, or `first` where none is better by more than a standard error.

    Of each sample the ratio of the noise of two forms is taken, and the mean of their logarithms. Samples held apart
    run with the kind that is chosen alone, and with what is there.

    Args:
        context: What is judged.
        forms: The model with rounded activations and float weights, for each kind, in the order in which they are held
            against the best so far; None for that which is there.
        feeds: Samples.
        first: The kind that others have to beat; where it is none of `forms`, what is there.
        policy: How many samples judge, and how sure they have to be.

    Returns:
        The kind; None where no output tells anything.
    """
    kinds = list(forms)
    with closing(activation_judge(context, list(forms.values()))) as judge:
        apart = _run_all(judge, feeds, policy)
        noises = dict(zip(kinds, judge.noises(), strict=True))
        if not noises[None].size:
            return None
        kind = _choose(noises, first, policy.kinds_certainty)
        if kind is None:
            return Chosen(None)
        places = [kinds.index(None), kinds.index(kind)]
        for feed in apart:
            judge.see(feed, places)
        own, other = (judge.noises()[place][-len(apart) :] for place in places)
    return Chosen(kind, Gains.of_noise(own, other), len(apart), policy.kinds_objection)


def _choose(noises: Mapping[_Kind | None, Noises], first: _Kind, certainty: float) -> _Kind | None:
    """Returns the kind whose noise is least, but the first where none is better by more than its standard errors."""
    chosen: _Kind | None = first if first in noises else None
    for kind, noise in noises.items():
        gains = Gains.of_noise(noises[chosen], noise)
        if gains.size > 1 and gains.better(errors=certainty):
            chosen = kind
    return chosen


def _run_all(judge: SampleNoise, feeds: Sequence[Feed], policy: Policy) -> list[Feed]:
    """Runs all forms on as many samples as tell enough, without those held apart, which it returns."""
    apart = list[Feed]()
    for count, feed in enumerate(feeds):
        # Samples held apart have as many numbers as the others.
        numbers = judge.numbers * count / max(count - len(apart), 1)
        if count >= policy.kinds_least_samples and numbers >= policy.kinds_enough_outputs:
            break
        if count % policy.kinds_one_in == policy.kinds_one_in - 1:
            apart.append(feed)
        else:
            judge.see(feed)
    return apart
