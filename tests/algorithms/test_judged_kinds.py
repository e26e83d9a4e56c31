"""Kinds of ranges of which samples choose one."""

from __future__ import annotations

import numpy as np

from quarkfast.algorithms import judged_kinds
from quarkfast.algorithms.judged_kinds import judge_kinds
from quarkfast.config import POLICY, Policy


class _Judge:
    """Gives forms the noise that it is told, and keeps which of them ran on which sample."""

    def __init__(self, levels, numbers=10):
        self._levels, self._each = levels, numbers
        self.numbers, self.runs, self.is_closed = 0, [], False

    def see(self, feed, places=None):
        self.numbers += self._each
        self.runs.append((feed, sorted(range(len(self._levels)) if places is None else places)))

    def noises(self):
        rng = np.random.default_rng(1)
        spread = rng.normal(1, 0.1, (len(self._levels), 200))
        return [
            np.array(
                [level * spread[place, feed] if place in places else np.nan for feed, places in self.runs],
                dtype=np.float64,
            )
            for place, level in enumerate(self._levels)
        ]

    def close(self):
        self.is_closed = True


def _judged(monkeypatch, levels, samples=60, numbers=10, first="b", **settings):
    judge = _Judge(list(levels.values()), numbers)
    monkeypatch.setattr(judged_kinds, "activation_judge", lambda context, forms: judge)
    forms = dict.fromkeys(levels)
    return judge_kinds(None, forms, range(samples), first, Policy(**settings)), judge


def test_samples_held_apart_run_with_the_chosen_kind_and_what_is_there(monkeypatch):
    chosen, judge = _judged(monkeypatch, {"a": 1.0, "b": 3.0, None: 2.0})
    assert chosen.kind == "a"
    assert chosen.samples == 20
    assert [run for run in judge.runs if run[0] % 3 == 2] == [(place, [0, 2]) for place in range(2, 60, 3)]
    assert judge.is_closed


def test_what_is_there_stays_where_it_is_the_best(monkeypatch):
    chosen, judge = _judged(monkeypatch, {None: 1.0, "a": 2.0, "b": 2.0})
    assert chosen.kind is None
    assert [feed for feed, _ in judge.runs] == [feed for feed in range(60) if feed % 3 != 2]
    assert judge.is_closed


def test_few_samples_are_enough_where_outputs_have_many_numbers(monkeypatch):
    chosen, judge = _judged(monkeypatch, {None: 1.0, "b": 1.0}, numbers=1000, kinds_enough_outputs=15_000)
    assert chosen.samples == 5
    assert max(feed for feed, _ in judge.runs) == 14
    assert {len(places) for _, places in judge.runs} == {2}


def test_outputs_without_noise_to_compare_tell_nothing(monkeypatch):
    judge = _Judge([1.0, 1.0])
    judge.noises = lambda: [np.zeros(0)] * 2
    monkeypatch.setattr(judged_kinds, "activation_judge", lambda context, forms: judge)
    assert judge_kinds(None, {None: None, "b": None}, range(20), "b", POLICY) is None
    assert judge.is_closed


def test_one_sample_with_most_of_the_noise_does_not_decide():
    noises = {None: [90.0, 1.0, 1.0, 1.0], 2.0: [110.0, 0.1, 0.2, 0.1], 2.5: [100.0, 1.0, 1.1, 0.9]}
    assert judged_kinds._choose({kind: np.array(each) for kind, each in noises.items()}, 2.5, 1.0) == 2.0


def test_samples_without_noise_tell_nothing():
    noises = {None: np.zeros(4), 2.5: np.array([0.0, 1.0, 0.0, 0.0])}
    assert judged_kinds._choose(noises, 2.5, 1.0) == 2.5
