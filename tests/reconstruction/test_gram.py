import numpy as np
import pytest

from quarkfast.reconstruction.gram import GramMatrices, fixed_point_step


def _rows(rng, groups=2, count=64, inputs=5):
    return rng.normal(size=(groups, count, inputs)).astype(np.float32)


def test_the_matrices_are_means_of_products_of_rounded_rows(rng):
    rows, floats = _rows(rng), _rows(rng)
    step, float_step = fixed_point_step(np.abs(rows).max()), fixed_point_step(np.abs(floats).max())
    found = GramMatrices(2, 5, step, float_step)
    found.add(rows, floats)
    # Multiples of powers of two with 15 bits: products and sums are exact in float64 in any order.
    x, y = (np.rint(each / size).astype(np.float64) * size for each, size in ((rows, step), (floats, float_step)))
    assert found.gram.tolist() == (np.einsum("gni,gnj->gij", x, x) / 64).tolist()
    assert found.cross.tolist() == (np.einsum("gni,gnj->gij", y, x) / 64).tolist()
    assert found.mean.tolist() == (x.sum(axis=1) / 64).tolist()
    assert found.float_mean.tolist() == (y.sum(axis=1) / 64).tolist()


def test_the_order_and_the_parts_of_rows_change_no_bit(rng):
    rows, floats = _rows(rng, count=999), _rows(rng, count=999)
    steps = fixed_point_step(np.abs(rows).max()), fixed_point_step(np.abs(floats).max())
    once, parts = GramMatrices(2, 5, *steps), GramMatrices(2, 5, *steps)
    once.add(rows, floats)
    order = rng.permutation(999)
    for part in np.array_split(order, 7):
        parts.add(rows[:, part], floats[:, part])
    for name in ("gram", "cross", "mean", "float_mean"):
        assert getattr(once, name).tobytes() == getattr(parts, name).tobytes()


def test_without_a_float_path_the_quantized_one_stands_for_it(rng):
    rows = _rows(rng)
    found = GramMatrices(2, 5, fixed_point_step(np.abs(rows).max()))
    found.add(rows)
    assert found.cross.tolist() == found.gram.tolist()
    assert found.float_mean.tolist() == found.mean.tolist()


def test_matrices_without_rows_are_zero():
    found = GramMatrices(1, 3, 1.0)
    assert not found.gram.any()
    assert not found.mean.any()


@pytest.mark.parametrize("largest", [1e-30, 0.3, 1.0, 1.5, 255.0, 1e30])
def test_the_largest_input_has_15_or_16_bits(largest):
    assert 2**14 < largest / fixed_point_step(largest) <= 2**15


@pytest.mark.parametrize("largest", [0.0, np.inf, np.nan])
def test_inputs_without_a_largest_are_counted_in_ones(largest):
    assert fixed_point_step(largest) == 1.0


def test_rows_are_taken_away_exactly(rng):
    rows, floats = _rows(rng), _rows(rng)
    steps = fixed_point_step(np.abs(rows).max()), fixed_point_step(np.abs(floats).max())
    found, rest = GramMatrices(2, 5, *steps), GramMatrices(2, 5, *steps)
    found.add(rows[:, :7], floats[:, :7])
    some = found.copy()
    found.add(rows[:, 7:], floats[:, 7:])
    rest.add(rows[:, 7:], floats[:, 7:])
    left = found.without(some)
    assert left.count == rest.count
    for name in ("gram", "cross", "mean", "float_mean"):
        assert np.array_equal(getattr(left, name), getattr(rest, name))
