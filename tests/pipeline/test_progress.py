"""Stages of a job, and what each took."""

from __future__ import annotations

from itertools import count

from quarkfast.pipeline import progress


def test_a_stage_does_not_count_the_one_within_it(monkeypatch):
    ticks = count()
    monkeypatch.setattr(progress.time, "perf_counter", lambda: float(next(ticks)))
    clock = progress.Clock()
    with clock.stage("check"):
        for _ in range(2):
            with clock.stage("round"):
                next(ticks)
    assert clock.seconds == {"round": 4.0, "check": 3.0}
