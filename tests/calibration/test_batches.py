"""Joining and cutting feeds."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast.calibration.data.inputs import regroup


def _feeds(*rows, width=2):
    start, feeds = 0, []
    for count in rows:
        feeds.append(
            {"x": np.arange(start, start + count)[:, None].repeat(width, 1), "n": np.arange(start, start + count)}
        )
        start += count
    return feeds


@pytest.mark.parametrize("rows", [(1,) * 10, (10,), (3, 4, 3), (7, 1, 2)], ids=str)
@pytest.mark.parametrize("size", [1, 3, 4, 10, 99])
def test_all_samples_come_in_order_in_batches_of_the_size(rows, size):
    batches = list(regroup(iter(_feeds(*rows)), size))
    assert [len(batch["x"]) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    assert 0 < len(batches[-1]["x"]) <= size
    np.testing.assert_array_equal(np.concatenate([batch["n"] for batch in batches]), np.arange(10))
    np.testing.assert_array_equal(np.concatenate([batch["x"][:, 1] for batch in batches]), np.arange(10))


def test_a_change_of_other_dimensions_closes_the_batch():
    feeds = [*_feeds(2, 1), *_feeds(1, 4, width=3)]
    assert [batch["x"].shape for batch in regroup(iter(feeds), 4)] == [(3, 2), (4, 3), (1, 3)]


def test_no_more_than_a_batch_and_a_feed_is_held():
    held, most = 0, 0

    def feeds():
        nonlocal held, most
        for feed in _feeds(*[1] * 20):
            held += 1
            most = max(most, held)
            yield feed

    for batch in regroup(feeds(), 4):
        held -= len(batch["x"])
    assert most == 4


def test_what_does_not_fill_a_batch_of_a_fixed_size_is_left_out_with_a_warning():
    with pytest.warns(UserWarning, match="3 samples do not fill a batch of 4, which the model fixes; left out"):
        batches = list(regroup(iter(_feeds(5, 6)), 4, exact=True))
    assert [len(batch["x"]) for batch in batches] == [4, 4]


def test_nothing_gives_nothing():
    assert list(regroup(iter([]), 4)) == []
