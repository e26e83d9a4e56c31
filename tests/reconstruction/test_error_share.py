"""What one half of the samples says of the error of an input, and how much of it holds for the other half."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarkfast.reconstruction import cholesky
from quarkfast.reconstruction import error_share as module_of_share
from quarkfast.reconstruction.error_share import covariances, error_share
from quarkfast.reconstruction.gram import GramMatrices

STEP = 2.0**-12
WEIGHTS = np.random.default_rng(1).standard_normal((1, 3, 6))


def _matrices(inputs, floats):
    """Returns matrices of the first half of all rows, and of the others."""
    halves = []
    for part in np.split(np.arange(len(inputs)), [len(inputs) // 2]):
        halves.append(GramMatrices(WEIGHTS, STEP, STEP))
        halves[-1].add(inputs[None, part], (floats - inputs)[None, part])
    return halves


def _inputs(count, seed):
    return np.round(np.random.default_rng(seed).standard_normal((count, 6)) / STEP) * STEP


@pytest.mark.parametrize("centred", [True, False])
def test_an_error_that_follows_from_the_input_is_made_up_for_as_a_whole(centred):
    inputs = _inputs(400, 2)
    mix = np.eye(6) + np.round(0.1 * np.random.default_rng(3).standard_normal((6, 6)) / STEP) * STEP
    assert error_share(*_matrices(inputs, inputs @ mix), 0.0, centred) == 1.0


@pytest.mark.parametrize("centred", [True, False])
def test_chance_is_made_up_for_by_little(centred):
    """Of the errors of 60 rows a regression on 6 inputs finds a tenth, none of which holds for others."""
    shares = [
        error_share(*_matrices(_inputs(60, seed), _inputs(60, seed) + _inputs(60, seed + 1000)), 0.0, centred)
        for seed in range(40)
    ]
    assert np.mean(shares) < 0.2


def test_more_samples_are_believed_more():
    mix = np.eye(6) + np.round(0.1 * np.random.default_rng(3).standard_normal((6, 6)) / STEP) * STEP
    few, many = (
        np.mean(
            [
                error_share(*_matrices(x := _inputs(n, seed), x @ mix + _inputs(n, seed + 99)), 0.0, True)
                for seed in range(20)
            ]
        )
        for n in (40, 2000)
    )
    assert few < 0.8 < many


def test_no_error_and_no_input_give_none():
    inputs = _inputs(50, 4)
    assert error_share(*_matrices(inputs, inputs), 0.01, True) == 0.0
    assert error_share(*_matrices(0 * inputs, 0 * inputs), 0.01, True) == 0.0
    assert error_share(*_matrices(0 * inputs, inputs), 0.01, True) == 0.0


def test_without_damping_the_error_is_still_regressed_on_the_input():
    """Inputs of unlike power, and one that is the sum of two others, which leaves no inverse."""
    inputs = _inputs(400, 7) * np.float64([8, 1, 1, 1, 1, 0.125])
    inputs[:, 4] = inputs[:, 2] + inputs[:, 3]
    floats = inputs + np.round(0.25 * inputs[:, [5]] / STEP) * STEP
    assert error_share(*_matrices(inputs, floats), 0.0, True) == 1.0


def test_one_sample_has_no_other_half():
    inputs, floats = _inputs(20, 5), _inputs(20, 6)
    found, other = GramMatrices(WEIGHTS, STEP, STEP), GramMatrices(WEIGHTS, STEP, STEP)
    found.add(inputs[None], (floats - inputs)[None])
    assert error_share(found, other, 0.01, True) == 0.0


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), part=st.floats(0, 1), centred=st.booleans())
def test_covariances_are_those_of_an_input_between_the_two(seed, part, centred):
    inputs, floats = _inputs(30, seed), _inputs(30, seed ^ 1)
    half, other = _matrices(inputs, floats)
    half.merge(other)
    gram, target = covariances(half, part, centred)
    between = inputs + part * (floats - inputs)
    means = (inputs.mean(axis=0), between.mean(axis=0)) if centred else (0.0, 0.0)
    np.testing.assert_allclose(gram[0], (inputs - means[0]).T @ (inputs - means[0]) / 30, atol=1e-12)
    # Weights are rounded by 2^-23 of the largest of their row, outputs by a part of the same size of what they can be.
    most = 2.0**-22 * np.abs(WEIGHTS).sum() * np.abs(floats - inputs).max() * np.abs(inputs).max()
    wanted = WEIGHTS[0] @ (between - means[1]).T @ (inputs - means[0]) / 30
    np.testing.assert_allclose(target[0], wanted, atol=most)


@pytest.mark.parametrize("damping", [0.0, 0.01])
@pytest.mark.parametrize("floats", [0.25, np.nan])
def test_large_matrices_have_the_share_that_they_have_as_a_whole(damping, floats, monkeypatch):
    """By blocks of three inputs, also where an input is the sum of two others and no damping, or a number, is there."""
    inputs = _inputs(60, 7)
    inputs[:, 4] = inputs[:, 2] + inputs[:, 3]
    floats = inputs + np.round(floats * _inputs(60, 8) / STEP) * STEP
    with np.errstate(invalid="ignore"):
        whole = error_share(*_matrices(inputs, floats), damping, True)
        for module, name in ((module_of_share, "_ROWS"), (module_of_share, "_SMALL"), (cholesky, "_BLOCK")):
            monkeypatch.setattr(module, name, 3)
        assert error_share(*_matrices(inputs, floats), damping, True) == whole
