import numpy as np
import pytest

import quarkfast
from quarkfast import kernels, reference

SIZES = (1, 2, 7, 8, 9, 31, 64, 65)


def _problem(rng, rows, inputs, qmax=7):
    """Weights beside correlated inputs, with the codes nearest to them."""
    x = rng.normal(size=(4 * inputs, inputs)) @ rng.normal(size=(inputs, inputs))
    gram = x.T @ x / len(x)
    weights, scale = rng.normal(size=(rows, inputs)), rng.uniform(0.1, 0.3, rows)
    codes = np.clip(np.rint(weights / scale[:, None]), -qmax - 1, qmax).astype(np.int8)
    return codes, scale, gram, (weights - codes * scale[:, None]) @ gram, weights


def _error(codes, scale, gram, weights):
    off = weights - codes * scale[:, None]
    return np.einsum("ok,kl,ol->o", off, gram, off)


@pytest.mark.parametrize("inputs", SIZES)
def test_every_instruction_set_gives_the_codes_of_the_reference(isa, rng, inputs):
    codes, scale, gram, residual, _ = _problem(rng, 5, inputs)
    got = kernels.descend_codes(codes, scale, gram, residual, qmin=-8, qmax=7, reach=2, passes=3)
    expected = reference.descend_codes(codes, scale, gram, residual, -8, 7, 2, 3)
    assert got.dtype == np.int8
    assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_no_code(rng, threads):
    codes, scale, gram, residual, _ = _problem(rng, 33, 40)
    expected = reference.descend_codes(codes, scale, gram, residual, -8, 7, 1, 4)
    before = quarkfast.num_threads()
    quarkfast.set_num_threads(threads)
    try:
        got = kernels.descend_codes(codes, scale, gram, residual, qmin=-8, qmax=7)
    finally:
        quarkfast.set_num_threads(before)
    assert got.tolist() == expected.tolist()


def test_no_row_gets_worse_and_correlated_inputs_gain(rng):
    codes, scale, gram, residual, weights = _problem(rng, 16, 48)
    found = kernels.descend_codes(codes, scale, gram, residual, qmin=-8, qmax=7, reach=15)
    before, after = (_error(each, scale, gram, weights) for each in (codes, found))
    # Each step is a minimum along one code, so that only rounding of float64 could raise the error.
    assert (after <= before * (1 + 1e-12)).all()
    assert after.sum() < before.sum() / 2


def test_no_code_can_move_alone_once_a_pass_changes_nothing(rng):
    codes, scale, gram, residual, weights = _problem(rng, 4, 12)
    found = kernels.descend_codes(codes, scale, gram, residual, qmin=-8, qmax=7, reach=15, passes=100)
    least = _error(found, scale, gram, weights)
    for k in range(12):
        for step in (-1, 1):
            other = found.astype(int)
            other[:, k] = np.clip(other[:, k] + step, -8, 7)
            assert (_error(other, scale, gram, weights) >= least * (1 - 1e-12)).all()


def test_codes_stay_within_their_limits(rng):
    codes, scale, gram, residual, _ = _problem(rng, 8, 20)
    found = kernels.descend_codes(np.clip(codes, -2, 1), scale, gram, residual * 100, qmin=-2, qmax=1, reach=4)
    assert found.min() == -2
    assert found.max() == 1


@pytest.mark.parametrize("reach", [0, 1, 2])
def test_codes_go_no_further_than_their_reach(rng, reach):
    codes, scale, gram, residual, _ = _problem(rng, 8, 20)
    found = kernels.descend_codes(codes, scale, gram, residual * 100, qmin=-128, qmax=127, reach=reach)
    assert np.abs(found.astype(int) - codes).max() == reach


def test_inputs_that_are_always_zero_keep_their_codes(rng):
    codes, scale, gram, residual, _ = _problem(rng, 3, 6)
    gram[2], gram[:, 2], residual[:, 2] = 0, 0, 5
    found = kernels.descend_codes(codes, scale, gram, residual, qmin=-8, qmax=7)
    assert found[:, 2].tolist() == codes[:, 2].tolist()


def test_residuals_that_are_no_numbers_move_nothing(rng):
    codes, scale, gram, residual, _ = _problem(rng, 3, 6)
    found = kernels.descend_codes(codes, scale, gram, np.full_like(residual, np.nan), qmin=-8, qmax=7)
    assert found.tolist() == codes.tolist()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32])
def test_arguments_stay_as_they_are_and_the_type_too(rng, dtype):
    codes, scale, gram, residual, _ = _problem(rng, 3, 6)
    given = (codes + 8).astype(dtype), scale, gram, residual
    copies = [each.copy() for each in given]
    found = kernels.descend_codes(*given, qmin=0, qmax=15)
    assert found.dtype == dtype
    assert all(np.array_equal(each, copy) for each, copy in zip(given, copies, strict=True))


def test_each_code_keeps_its_own_limits():
    codes, scale, gram, residual, _ = _problem(np.random.default_rng(6), 9, 20)
    draw = np.random.default_rng(7)
    low, high = (codes + sign * draw.integers(0, 3, codes.shape) for sign in (-1, 1))
    limits = {"lowest": low, "highest": high}
    found = kernels.descend_codes(codes, scale, gram, residual * 100, qmin=-8, qmax=7, reach=15, **limits)
    low, high = np.maximum(low, -8), np.minimum(high, 7)
    assert np.array_equal(found, reference.descend_codes(codes, scale, gram, residual * 100, low, high, 15, 4))
    assert (found >= low).all()
    assert (found <= high).all()
    assert (found != codes).any()


def test_nothing_in_gives_nothing():
    empty = np.zeros((0, 4), np.int8), np.zeros(0), np.eye(4), np.zeros((0, 4))
    assert kernels.descend_codes(*empty, qmin=-8, qmax=7).shape == (0, 4)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"codes": np.zeros((2, 3))}, TypeError, "descend_codes: codes: expected integers, got dtype float64"),
        ({"codes": np.zeros(3, np.int8)}, ValueError, r"codes: expected shape \(m, k\), got \(3,\)"),
        ({"scale": np.ones(3)}, ValueError, r"scale: expected shape \(2,\), got \(3,\)"),
        ({"gram": np.ones((2, 2))}, ValueError, r"gram: expected shape \(3, 3\), got \(2, 2\)"),
        ({"residual": np.ones((2, 2))}, ValueError, r"residual: expected shape \(2, 3\), got \(2, 2\)"),
        ({"gram": np.eye(3, dtype=np.float32)}, TypeError, "gram: expected dtype float64, got float32"),
        ({"scale": np.array([1.0, 0.0])}, ValueError, r"scale: expected finite values > 0, got 0\.0"),
        ({"scale": np.array([1.0, np.inf])}, ValueError, "scale: expected finite values > 0, got inf"),
        ({"qmin": -200}, ValueError, "range: expected -128 <= qmin <= qmax <= 127, got -200, 7"),
        ({"codes": np.full((2, 3), 9, np.int8)}, ValueError, "codes: expected -8 to 7, got 9 to 9"),
        ({"lowest": np.zeros((2, 3))}, TypeError, "lowest: expected integers, got dtype float64"),
        ({"highest": np.zeros(3, np.int8)}, ValueError, r"highest: expected shape \(2, 3\), got \(3,\)"),
        ({"lowest": np.full((2, 3), 2)}, ValueError, "lowest: expected a limit that the code 0 keeps, got 2"),
        ({"highest": np.full((2, 3), -1)}, ValueError, "highest: expected a limit that the code 0 keeps, got -1"),
        ({"reach": -1}, ValueError, "reach: expected 0 or more, got -1"),
        ({"passes": 1.5}, TypeError, r"passes: expected an integer, got 1\.5"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(change, kind, message):
    given = {"codes": np.zeros((2, 3), np.int8), "scale": np.ones(2), "gram": np.eye(3), "residual": np.zeros((2, 3))}
    with pytest.raises(kind, match=message):
        kernels.descend_codes(**({"qmin": -8, "qmax": 7} | given | change))
