"""Products of matrices, against sums element by element."""

import numpy as np

from quarkfast.reconstruction.products import products


def test_each_pair_is_multiplied():
    rng = np.random.default_rng(5)
    left = rng.integers(-9, 10, (3, 4, 5)).astype(np.float32)
    right = rng.integers(-9, 10, (3, 5, 2)).astype(np.float32)
    got = products(left, right)
    assert got.dtype == np.float32
    for index in np.ndindex(3, 4, 2):
        g, i, j = index
        assert got[index] == sum(left[g, i, k] * right[g, k, j] for k in range(5))
