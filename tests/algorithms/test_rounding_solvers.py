"""Each solver on random forms: no row has a larger error than with the nearest codes, and small forms come near to the
least error that there is."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from quarkfast.algorithms.rounding import CoordinateDescent, GptqSolver, RoundingProblem, descent
from quarkfast.algorithms.rounding.error_feedback import InverseFactors, inverse_factor
from quarkfast.reconstruction import set_aside
from quarkfast.reconstruction.set_aside import SetAside

KINDS = [
    CoordinateDescent(),
    GptqSolver(),
    GptqSolver(act_order=True, block_size=2),
    GptqSolver(passes=2),
]


def problem(seed, groups=2, outputs=6, inputs=5, rows=40):
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(groups, rows, inputs)) @ rng.normal(size=(groups, inputs, inputs))
    weights, scales = rng.normal(0, 2, (groups, outputs, inputs)), rng.uniform(0.5, 1, (groups, outputs))
    codes = np.clip(np.rint(weights / scales[..., None]), -8, 7).astype(np.int8)
    gram = data.transpose(0, 2, 1) @ data / rows
    return RoundingProblem(codes, codes * scales[..., None], weights, scales, SetAside(gram), weights @ gram, -8, 7)


def grouped(form):
    """The same with a scale of its own for two inputs at a time, some of them below zero, and codes to fit."""
    rng = np.random.default_rng(7)
    groups, rows, inputs = form.weights.shape
    shape = (groups, rows, -(-inputs // 2))
    steps = np.repeat(rng.uniform(0.5, 1, shape) * rng.choice((-1, 1), shape), 2, axis=-1)[..., :inputs]
    codes = np.clip(np.rint(form.weights / steps) + 3, -8, 7).astype(np.int8)
    decoded = (codes.astype(np.float64) - 3) * steps
    return RoundingProblem(codes, decoded, form.weights, steps, form.form, form.target, -8, 7)


def gptq_by_the_equations(form, acts):
    """Algorithm 1 of the paper without its blocks: the inverse of what is left is computed anew for each input."""
    weights, codes = form.weights.copy(), np.zeros(form.codes.shape, int)
    steps = np.broadcast_to(form.scales if form.scales.ndim == 3 else form.scales[..., None], weights.shape)
    for g, gram in enumerate(form.gram):
        left = np.argsort(-np.diag(gram)).tolist() if acts else list(range(len(gram)))
        while left:
            k = left[0]
            inverse = np.linalg.inv(gram[np.ix_(left, left)])
            for m in range(weights.shape[1]):
                at = g, m, k
                zero = round(form.codes[at] - form.decoded[at] / steps[at])
                codes[at] = min(max(round(weights[at] / steps[at]) + zero, -8), 7)
                error = (weights[at] - (codes[at] - zero) * steps[at]) / inverse[0, 0]
                for place, other in enumerate(left):
                    weights[g, m, other] -= error * inverse[0, place]
            left = left[1:]
    return codes


def slow_error(form, codes):
    """The squared error of each row, summed up element by element, less the same constant."""
    groups, outputs, inputs = (range(size) for size in codes.shape)

    def row(g, m):
        v = [codes[g, m, i] * form.scales[g, m] for i in inputs]
        return sum(v[i] * (sum(form.gram[g, i, j] * v[j] for j in inputs) - 2 * form.target[g, m, i]) for i in inputs)

    return [[row(g, m) for m in outputs] for g in groups]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("solver", KINDS, ids=repr)
def test_no_row_is_worse_than_with_the_nearest_codes(solver, seed):
    form = problem(seed)
    found = solver.solve(form)
    assert found.dtype == np.int8
    assert found.min() >= -8
    assert found.max() <= 7
    assert (form.errors(found) <= form.errors(form.codes)).all()
    np.testing.assert_allclose(form.errors(found), slow_error(form, found), rtol=1e-9)
    assert np.array_equal(found, solver.solve(form))


@pytest.mark.parametrize("solver", KINDS[:2], ids=repr)
def test_most_of_what_there_is_to_gain_is_gained(solver):
    """Against all ways of rounding up or down, of which a row of five inputs has 32; no solver is told to find them."""
    wanted, gained = 0.0, 0.0
    for form in map(problem, range(8)):
        low, nearest = np.floor(form.positions()), form.errors(form.codes).sum()
        ways = [np.clip(low + np.array(up), -8, 7).astype(np.int8) for up in product((0, 1), repeat=5)]
        wanted += nearest - np.min([form.errors(way) for way in ways], axis=0).sum()
        gained += nearest - form.errors(solver.solve(form)).sum()
    assert gained > 0.5 * wanted > 0


def test_weights_that_are_codes_stay():
    form = problem(1)
    exact = RoundingProblem(
        form.codes, form.decoded, form.decoded, form.scales, form.form, form.decoded @ form.gram, -8, 7
    )
    for solver in KINDS:
        assert np.array_equal(solver.solve(exact), form.codes)


@pytest.mark.parametrize("shape", [lambda form: form, grouped])
@pytest.mark.parametrize("settings", [{}, {"block_size": 3}, {"act_order": True}])
def test_gptq_is_that_of_the_paper(settings, shape):
    for seed in range(4):
        form = shape(problem(seed, inputs=9))
        expected = gptq_by_the_equations(form, "act_order" in settings)
        better = form.errors(expected) < form.errors(form.codes)
        assert better.sum() > 2
        found = GptqSolver(**settings).solve(form)
        assert np.array_equal(found[better], expected[better])
        assert np.array_equal(found[~better], form.codes[~better])


def test_gptq_keeps_the_nearest_codes_where_no_input_was_seen():
    form = problem(0)
    unseen = RoundingProblem(
        form.codes, form.decoded, form.weights, form.scales, SetAside(0 * form.gram), 0 * form.target, -8, 7
    )
    assert np.array_equal(GptqSolver().solve(unseen), form.codes)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("solver", KINDS, ids=repr)
def test_scales_may_change_along_a_row_and_lie_below_zero(solver, seed):
    form = grouped(problem(seed))
    found = solver.solve(form)
    assert found.min() >= -8
    assert found.max() <= 7
    assert (form.errors(found) <= form.errors(form.codes)).all()


def test_descent_by_groups_is_descent_where_all_groups_have_one_scale():
    form = problem(2, inputs=6)
    steps = np.repeat(form.scales[..., None], 6, axis=-1)
    spread = RoundingProblem(form.codes, form.decoded, form.weights, steps, form.form, form.target, -8, 7)
    assert np.array_equal(CoordinateDescent().solve(spread), CoordinateDescent().solve(form))


@pytest.mark.parametrize("shape", [lambda form: form, grouped])
def test_descent_goes_no_further_than_the_other_side_of_a_weight_unless_feedback_did(shape):
    gained = 0.0
    for form in (shape(problem(seed)) for seed in range(8)):
        begun, found = GptqSolver(act_order=True).solve(form), CoordinateDescent().solve(form)
        moved = found != begun
        assert (np.abs(form.positions() - found)[moved] <= 1 + 1e-12).all()  # float64, of less than 16 steps
        assert (form.errors(found) <= form.errors(begun)).all()
        gained += (form.errors(begun) - form.errors(found)).sum()
    assert gained > 0


def test_codes_far_from_their_weights_stay_or_come_closer():
    form = problem(5)
    far = replace(form, codes=np.clip(form.codes + 2, form.lowest, form.highest).astype(np.int8))
    far = replace(far, decoded=form.values_of(far.codes))
    low, high = far.limits_near(1.0)
    assert (high == far.codes).all()
    assert (low < far.codes).any()


@pytest.mark.parametrize("size", [1, 2, 64, 65, 200])
def test_the_factor_of_an_inverse_is_triangular_and_its_square_the_inverse(size, rng):
    data = rng.normal(size=(2 * size + 8, size))
    gram = data.T @ data
    factor = inverse_factor(gram, np.arange(size))
    assert np.array_equal(factor, np.triu(factor))
    # Backward stable: the residual is at most of the order of size * eps * condition (Higham 2002, chapter 14).
    most = 8 * size * np.finfo(float).eps * np.linalg.cond(gram)
    assert np.abs(factor.T @ factor @ gram - np.eye(size)).max() <= most


def test_a_matrix_without_a_factor_is_refused():
    with pytest.raises(np.linalg.LinAlgError):
        inverse_factor(np.array([[1.0, 2.0], [2.0, 1.0]]), np.arange(2))


def test_factors_that_are_known_change_no_code():
    form = problem(8)
    known = replace(form, factors=InverseFactors.of(form.form, act_order=True))
    for solver in (CoordinateDescent(), GptqSolver(act_order=True), GptqSolver()):
        assert np.array_equal(solver.solve(form), solver.solve(known))


@pytest.mark.parametrize("act_order", [True, False])
def test_weights_of_least_error_solve_the_form(act_order):
    form = problem(9)
    factors = InverseFactors.of(form.form, act_order=act_order)
    wanted = np.rint(form.weights)
    found = factors.of_least_error(wanted @ form.gram, form.weights)
    # Both products with the factor are backward stable, as is the factor: of the order of k * eps * condition.
    most = 8 * 5 * np.finfo(float).eps * np.linalg.cond(form.gram).max() * np.abs(wanted).max()
    assert np.abs(found - wanted).max() <= most


@pytest.mark.parametrize("gram", [[[0.0, 0.0], [0.0, 0.0]], [[1e-320, 0.0], [0.0, 1.0]]])
def test_weights_of_inputs_that_say_nothing_stay(gram):
    factors = InverseFactors.of(SetAside(np.array([gram])), act_order=True)
    assert factors.of_least_error(np.ones((1, 1, 2)), np.full((1, 1, 2), 5.0))[0, 0, 0] == 5.0


@pytest.mark.parametrize("at_once", [1, 10, 12, 1 << 20])
def test_parts_of_the_rows_have_the_codes_that_they_have_together(at_once, monkeypatch):
    form = problem(11)
    together = CoordinateDescent().solve(form)
    monkeypatch.setattr(descent, "_AT_ONCE", at_once)
    assert np.array_equal(CoordinateDescent().solve(form), together)


@pytest.mark.parametrize("shape", [lambda form: form, grouped])
@pytest.mark.parametrize("solver", KINDS, ids=repr)
def test_large_forms_have_the_codes_of_forms_in_memory(solver, shape, monkeypatch):
    form = shape(problem(12))
    codes = solver.solve(form)
    monkeypatch.setattr(set_aside, "LARGE", 0)
    large = replace(form, form=SetAside(form.gram))
    known = replace(large, factors=InverseFactors.of(large.form, act_order=True))
    assert all(np.array_equal(solver.solve(each), codes) for each in (large, known))
