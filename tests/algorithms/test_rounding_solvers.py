"""Each solver on random forms: no row has a larger error than with the nearest codes, and small forms come near to the
least error that there is."""

from itertools import product

import numpy as np
import pytest

from quarkfast.algorithms.rounding import SOLVERS, AdaQuant, AdaRound, RoundingProblem

# Settings are in units of weights and errors: these weights are a thousand times those of a network.
KINDS = [
    SOLVERS["descent"](),
    AdaRound(reg_param=0.3),
    AdaQuant(learning_rate=1e-2),
    AdaRound(reg_param=0.3, early_stop=True),
    AdaQuant(learning_rate=1e-2, early_stop=True),
]


def problem(seed, groups=2, outputs=6, inputs=5, rows=40):
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(groups, rows, inputs)) @ rng.normal(size=(groups, inputs, inputs))
    weights, scales = rng.normal(0, 2, (groups, outputs, inputs)), rng.uniform(0.5, 1, (groups, outputs))
    codes = np.clip(np.rint(weights / scales[..., None]), -8, 7).astype(np.int8)
    gram = data.transpose(0, 2, 1) @ data / rows
    return RoundingProblem(codes, codes * scales[..., None], weights, scales, gram, weights @ gram, -8, 7)


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


@pytest.mark.parametrize("solver", KINDS[:3], ids=repr)
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
        form.codes, form.decoded, form.decoded, form.scales, form.gram, form.decoded @ form.gram, -8, 7
    )
    for solver in KINDS:
        assert np.array_equal(solver.solve(exact), form.codes)
