"""Scales of groups by the output of a layer: sought for the nearest codes, and fitted to given ones."""

from dataclasses import replace

import numpy as np
import pytest

from quarkfast.algorithms.rounding import CoordinateDescent, GptqSolver, RoundingProblem
from quarkfast.algorithms.rounding.group_scales import fit_scales, search_scales, solve_with_scales
from quarkfast.reconstruction.set_aside import SetAside

SIZE = 4


def _problem(seed, inputs=10, zero=0, mirrored=True):
    """Two groups of five rows; the last group of inputs is not full, and one weight of each row stands out."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(2, 60, inputs)) @ rng.normal(size=(2, inputs, inputs))
    weights = rng.normal(0, 1, (2, 5, inputs))
    weights[:, :, 0] *= 4
    firsts = np.arange(0, inputs, SIZE)
    reach = np.maximum.reduceat(np.abs(weights), firsts, axis=-1) / 7
    signs = rng.choice((-1, 1), reach.shape) if mirrored else 1
    scales = (signs * reach).astype(np.float32).astype(np.float64).repeat(np.diff([*firsts, inputs]), axis=-1)
    codes = np.clip(np.rint(weights / scales) + zero, -8, 7).astype(np.int8)
    gram = data.transpose(0, 2, 1) @ data / 60
    return RoundingProblem(codes, (codes - zero) * scales, weights, scales, SetAside(gram), weights @ gram, -8, 7)


def _total(problem, codes=None):
    return problem.errors(problem.codes if codes is None else codes).sum()


@pytest.mark.parametrize("zero", [0, 2])
def test_scales_that_are_sought_lessen_the_error_of_single_inputs(zero):
    problem = _problem(0, zero=zero)
    found = search_scales(problem, SIZE)
    weight = np.diagonal(problem.gram, axis1=1, axis2=2)[:, None, :]
    before, after = ((weight * (each.weights - each.decoded) ** 2).sum(axis=-1) for each in (problem, found))
    assert (after <= before).all()
    assert after.sum() < before.sum()
    assert (found.scales != problem.scales).any()
    assert np.array_equal((found.codes - float(zero)) * found.scales, found.decoded)
    assert np.array_equal(found.scales, found.scales.astype(np.float32))


def test_fitted_scales_are_those_of_least_error():
    problem = _problem(1)
    found = fit_scales(problem, SIZE)
    assert (found.errors(found.codes) < problem.errors(problem.codes)).all()
    assert np.array_equal(found.codes, problem.codes)
    assert np.array_equal(found.scales, found.scales.astype(np.float32))
    for group in range(3):
        for change in (0.99, 1.01):
            scales = found.scales.copy()
            scales[..., group * SIZE : (group + 1) * SIZE] *= change
            moved = replace(found, scales=scales, decoded=found.codes * scales)
            assert (moved.errors(moved.codes) > found.errors(found.codes)).all()


def test_a_group_of_zeros_and_one_that_would_turn_keep_their_scales():
    problem = _problem(2, mirrored=False)
    codes = problem.codes.copy()
    codes[:, 0, :SIZE] = 0
    codes[:, 1] *= -1
    given = replace(problem, codes=codes, decoded=codes * problem.scales)
    found = fit_scales(given, SIZE)
    assert np.array_equal(found.scales[:, 0, :SIZE], problem.scales[:, 0, :SIZE])
    assert (found.scales > 0).all()


@pytest.mark.parametrize("solver", [GptqSolver(act_order=True), CoordinateDescent()], ids=str)
@pytest.mark.parametrize("zero", [0, 2])
def test_no_row_loses_and_all_together_gain_over_the_solver_alone(solver, zero):
    for seed in range(5):
        problem = _problem(seed, zero=zero)
        codes, scales = solve_with_scales(problem, solver, SIZE, rounds=2)
        found = replace(problem, codes=codes, scales=scales, decoded=(codes - float(zero)) * scales)
        assert codes.dtype == problem.codes.dtype
        assert set(codes.ravel()) <= set(range(-8, 8))
        assert (found.errors(codes) <= problem.errors(problem.codes)).all()
        assert _total(found) < _total(problem, solver.solve(problem))


def test_rows_that_hit_their_weights_stay():
    problem = _problem(3)
    exact = replace(problem, weights=problem.decoded, target=problem.decoded @ problem.gram)
    codes, scales = solve_with_scales(exact, GptqSolver(), SIZE, rounds=1)
    assert np.array_equal(codes, exact.codes)
    assert np.array_equal(scales, exact.scales)
