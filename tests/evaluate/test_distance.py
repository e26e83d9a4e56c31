"""Distances of outputs from those of the float model."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast.evaluate import sqnr
from quarkfast.evaluate.distance import DISTANCES, RATIOS


def rows(count: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 1, (1, 5)) for _ in range(count)]


def noisy(amount: float) -> list[np.ndarray]:
    return [one + amount * other for one, other in zip(rows(6, 1), rows(6, 2), strict=True)]


@pytest.mark.parametrize("metric", DISTANCES)
def test_more_noise_is_further_away_and_none_is_nearest(metric):
    found = [DISTANCES[metric](rows(6, 1), noisy(amount)) for amount in (0.0, 0.01, 0.1, 1.0)]
    assert found == sorted(found)
    assert len(set(found)) == 4
    nearest = float("-inf") if metric in RATIOS else 0.0
    assert found[0] == pytest.approx(nearest, abs=1e-12)


def test_the_ratio_is_that_of_all_samples_at_once():
    assert DISTANCES["sqnr"](rows(6, 1), noisy(0.1)) == pytest.approx(-sqnr(rows(6, 1), noisy(0.1)))


def test_known_values():
    assert DISTANCES["psnr"]([np.array([3.0, -10.0])], [np.array([3.0, -9.0])]) == pytest.approx(-10 * np.log10(200))
    assert DISTANCES["l2"]([np.array([0.0, 3.0])], [np.array([4.0, 0.0])]) == 5
    assert DISTANCES["cosine"]([np.array([1.0, 0.0])], [np.array([0.0, 1.0])]) == pytest.approx(1)
    assert DISTANCES["cosine"]([np.zeros(2)], [np.zeros(2)]) == 0
    even, sure = np.log(np.array([[0.5, 0.5]])), np.log(np.array([[0.9, 0.1]]))
    expected = 0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(0.5 / 0.1)
    assert DISTANCES["kl"]([even], [sure]) == pytest.approx(expected)
    assert DISTANCES["sqnr"]([np.zeros(2)], [np.ones(2)]) == float("inf")
