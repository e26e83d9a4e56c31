import numpy as np
import pytest

from quarkfast.reconstruction.gram import GramMatrices, fixed_point_step


def _rows(rng, groups=2, count=64, inputs=5):
    return rng.normal(size=(groups, count, inputs)).astype(np.float32)


def _weights(rng, outputs, inputs=5):
    return rng.normal(size=(2, outputs, inputs)).astype(np.float32)


def _steps(*arrays):
    return [fixed_point_step(np.abs(each).max()) for each in arrays]


# Of one output what the outputs lack is multiplied, of seven what the inputs lack.
OUTPUTS = pytest.mark.parametrize("outputs", [1, 2, 7])


@OUTPUTS
def test_the_matrices_are_means_of_products_of_rounded_rows(rng, outputs):
    rows, missing, weights = _rows(rng), _rows(rng), _weights(rng, outputs)
    step, missing_step = _steps(rows, missing)
    found = GramMatrices(weights, step, missing_step)
    found.add(rows, missing)
    # Multiples of powers of two with 15 bits: products and sums are exact in float64 in any order.
    x, d = (np.rint(each / size).astype(np.float64) * size for each, size in ((rows, step), (missing, missing_step)))
    assert found.gram.tolist() == (np.einsum("gni,gnj->gij", x, x) / 64).tolist()
    assert found.mean.tolist() == (x.sum(axis=1) / 64).tolist()
    assert found.missing_mean.tolist() == (d.sum(axis=1) / 64).tolist()
    # Weights are rounded to 2^-23 of at most twice the largest of their row, outputs to as much of at most four times
    # the sum of the magnitudes of weights times the largest input.
    lacking = np.einsum("gmk,gnk->gmn", weights, d, dtype=np.float64)
    most = 2.0**-21 * 5 * np.abs(weights).max() * np.abs(d).max() * np.abs(x).max() + np.finfo(float).eps
    assert np.abs(found.missing - np.einsum("gmn,gnk->gmk", lacking, x) / 64).max() <= most


@OUTPUTS
def test_the_order_and_the_parts_of_rows_change_no_bit(rng, outputs):
    rows, missing, weights = _rows(rng, count=999), _rows(rng, count=999), _weights(rng, outputs)
    steps = _steps(rows, missing)
    once, parts, merged = (GramMatrices(weights, *steps) for _ in range(3))
    once.add(rows, missing)
    order = rng.permutation(999)
    for place, part in enumerate(np.array_split(order, 7)):
        added = GramMatrices(weights, *steps) if place else parts
        added.add(rows[:, part], missing[:, part])
        if place:
            merged.merge(added)
    merged.merge(parts)
    for name in ("gram", "missing", "mean", "missing_mean"):
        assert getattr(once, name).tobytes() == getattr(merged, name).tobytes()
    assert once.count == merged.count


@OUTPUTS
def test_groups_of_many_rows_do_not_meet(rng, outputs):
    rows, missing = _rows(rng, count=9999), _rows(rng, count=9999)  # of which one group is counted at once
    weights, steps = _weights(rng, outputs), _steps(rows, missing)
    together = GramMatrices(weights, *steps)
    together.add(rows, missing)
    for group in range(2):
        alone = GramMatrices(weights[[group]], *steps)
        alone.add(rows[[group]], missing[[group]])
        for name in ("gram", "missing", "mean", "missing_mean"):
            assert getattr(together, name)[group].tobytes() == getattr(alone, name)[0].tobytes()


@pytest.mark.parametrize("inputs", [9, 600])
def test_outputs_are_whole_numbers_whose_sums_are_exact(rng, inputs):
    """All weights and inputs as large as can be: every sum is below 2^53, and so the same in any order."""
    weights = np.full((1, 2, inputs), 1.9999999, np.float32)
    found = GramMatrices(weights, 1.0, 1.0)
    codes = np.full((1, 64, inputs), 2.0**15)
    outputs = found._outputs.of(codes, slice(None))
    assert np.array_equal(outputs, np.rint(outputs))
    assert 2.0**20 <= np.abs(outputs).max() <= 2.0**22


@pytest.mark.parametrize("outputs", [1, 7])
def test_weights_of_zero_lack_nothing(rng, outputs):
    rows = _rows(rng)
    found = GramMatrices(np.zeros((2, outputs, 5), np.float32), *_steps(rows, rows))
    found.add(rows, rows)
    assert not found.missing.any()


def test_without_a_float_path_nothing_is_missing(rng):
    rows = _rows(rng)
    found = GramMatrices(_weights(rng, 3), *_steps(rows))
    found.add(rows)
    assert not found.missing.any()
    assert not found.missing_mean.any()


def test_matrices_without_rows_are_zero():
    found = GramMatrices(np.ones((1, 2, 3)), 1.0)
    assert not found.gram.any()
    assert not found.mean.any()


@pytest.mark.parametrize("largest", [1e-30, 0.3, 1.0, 1.5, 255.0, 1e30])
def test_the_largest_input_has_15_or_16_bits(largest):
    assert 2**14 < largest / fixed_point_step(largest) <= 2**15


@pytest.mark.parametrize("largest", [0.0, np.inf, np.nan])
def test_inputs_without_a_largest_are_counted_in_ones(largest):
    assert fixed_point_step(largest) == 1.0
