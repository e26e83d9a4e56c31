"""Factors of matrices within one block, of several and of parts of one."""

import numpy as np
import pytest

from quarkfast.reconstruction import cholesky
from quarkfast.reconstruction.cholesky import factor_in_place, invert_lower, solve_in_place

SIZES = pytest.mark.parametrize("size", [1, 7, 8, 9, 40, 83])


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(cholesky, "_BLOCK", 8)
    monkeypatch.setattr(cholesky, "_HALVED", 16)
    monkeypatch.setattr(cholesky, "_SMALL", 2)


def _matrix(rng, size):
    data = rng.normal(size=(2 * size + 8, size))
    return data.T @ data


@SIZES
def test_a_factor_times_itself_is_the_matrix(size, rng):
    matrix = _matrix(rng, size)
    factor = matrix.copy()
    factor_in_place(factor)
    assert np.array_equal(factor, np.tril(factor))
    # Higham 2002, theorem 10.3, with the inverse of a block in place of a substitution (section 14.2).
    most = 8 * size * np.finfo(float).eps * np.linalg.cond(matrix) * np.abs(matrix).max()
    assert np.abs(factor @ factor.T - matrix).max() <= most


@SIZES
def test_what_lies_above_the_diagonal_is_not_read(size, rng):
    matrix = _matrix(rng, size)
    lower = np.tril(matrix)
    factor_in_place(matrix)
    factor_in_place(lower)
    assert np.array_equal(lower, matrix)


@SIZES
@pytest.mark.parametrize("count", [1, 5])
def test_rows_are_solved(size, count, rng):
    matrix, wanted = _matrix(rng, size), rng.normal(size=(count, size))
    rows, factor = wanted @ matrix, matrix.copy()
    factor_in_place(factor)
    solve_in_place(factor, rows)
    # Forward error of a backward stable solution: of the order of size * eps * condition.
    most = 8 * size * np.finfo(float).eps * np.linalg.cond(matrix) * np.abs(wanted).max()
    assert np.abs(rows - wanted).max() <= most


@SIZES
def test_the_inverse_of_a_triangle_is_a_triangle(size, rng):
    matrix = _matrix(rng, size)
    factor_in_place(matrix)
    inverse = matrix.copy()
    invert_lower(inverse)
    assert np.array_equal(inverse, np.tril(inverse))
    most = 8 * size * np.finfo(float).eps * np.linalg.cond(matrix)
    assert np.abs(inverse @ matrix - np.eye(size)).max() <= most


@pytest.mark.parametrize("size", [2, 20])
def test_a_matrix_without_a_factor_is_refused(size):
    matrix = np.eye(size)
    matrix[-1, -1] = -1.0
    with pytest.raises(np.linalg.LinAlgError):
        factor_in_place(matrix)
