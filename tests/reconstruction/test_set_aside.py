import gc

import numpy as np
import pytest

from quarkfast.reconstruction import gram, set_aside
from quarkfast.reconstruction.gram import GramMatrices
from quarkfast.reconstruction.set_aside import SetAside


@pytest.mark.parametrize("rows", [1, 3, 128])
@pytest.mark.parametrize("size", [1, 7])
def test_large_matrices_are_what_they_were_and_leave_no_file(rows, size, tmp_path, monkeypatch, rng):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(set_aside, "_ROWS", rows)
    matrices, order = rng.normal(size=(2, size, size)), rng.permutation(size)
    near = SetAside(matrices)
    monkeypatch.setattr(set_aside, "LARGE", 0)
    far = SetAside(matrices)
    assert (near.is_large, far.is_large) == (False, True)
    assert np.array_equal(far.diagonals, np.diagonal(matrices, axis1=1, axis2=2))
    for each in (near, far):
        assert np.array_equal(each.read(), matrices)
        for group in range(2):
            assert np.array_equal(each.permuted(group, order), matrices[group][np.ix_(order, order)])
    assert not np.shares_memory(far.read(), far.read())
    del far, each
    gc.collect()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("inputs", [3, 4, 10])
def test_halves_of_a_gram_matrix_in_files_are_those_in_memory(inputs, monkeypatch, rng):
    monkeypatch.setattr(gram, "_BLOCK", 4)
    monkeypatch.setattr(gram, "_ROWS", 3)
    rows = rng.normal(size=(2, 2, 30, inputs))
    found = []
    for large in (1 << 20, 0):
        monkeypatch.setattr(gram, "LARGE", large)
        one = GramMatrices(np.ones((2, 1, inputs)), 2.0**-15)
        other = one.without_rows()
        for each, own in zip((one, other), rows, strict=True):
            each.add(own)
            each.set_aside()
        halves = one.gram, other.gram
        one.merge(other)
        found.append((*halves, one.gram))
    for near, far in zip(*found, strict=True):
        assert np.array_equal(near, far)
        assert np.array_equal(near, near.transpose(0, 2, 1))
