"""Counts of a compact histogram are those it was given, whatever the largest of them."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast.kernels import histogram
from quarkfast.statistics.tensor import CompactHistogram


@pytest.mark.parametrize(
    ("largest", "size"), [(0, 1), (255, 1), (256, 2), (65535, 2), (65536, 4), (2**32, 8), (2**64 - 1, 8)]
)
def test_counts_have_the_fewest_bytes_that_hold_them(largest: int, size: int) -> None:
    counts = np.zeros(4096, np.uint64)
    counts[[7, 9]] = min(1, largest), largest
    found = CompactHistogram(counts, -3, histogram(np.float32([1.0])).range)
    assert found.kept.itemsize == size
    assert found.counts.dtype == np.uint64
    np.testing.assert_array_equal(found.counts, counts)


def test_it_is_a_histogram_of_the_same_values() -> None:
    wide = histogram(np.random.default_rng(0).normal(size=1000).astype(np.float32))
    found = CompactHistogram(wide.counts, wide.exponent, wide.range)
    assert (found.exponent, found.range) == (wide.exponent, wide.range)
    np.testing.assert_array_equal(found.edges, wide.edges)


def test_a_change_of_widened_counts_changes_nothing_that_is_kept() -> None:
    wide = histogram(np.float32([1.0, 2.0]))
    found = CompactHistogram(wide.counts, wide.exponent, wide.range)
    found.counts[:] = 0
    np.testing.assert_array_equal(found.counts, wide.counts)
