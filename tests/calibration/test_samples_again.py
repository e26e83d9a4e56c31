"""Samples can be read again: files, arrays and readers as they are, iterators from the disk."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast.calibration.data import ModelInput, RandomDataReader, Spool, open_data
from quarkfast.errors import CalibrationError

INPUTS = [ModelInput("x", np.dtype(np.float32), ("N", 3))]
X = np.arange(30, dtype=np.float32).reshape(10, 3)


class Reader:
    def __init__(self, **methods):
        self._left = self._feeds()
        for name in methods:
            setattr(self, name, self._back)

    def _feeds(self):
        return iter([{"x": X[:4]}, {"x": X[4:]}])

    def _back(self):
        self._left = self._feeds()

    def get_next(self):
        return next(self._left, None)


def _passes(samples, count=2):
    return [[feed["x"].copy() for feed in samples] for _ in range(count)]


def _check(passes):
    for found in passes:
        np.testing.assert_array_equal(np.concatenate(found), X)
    assert [[array.shape for array in found] for found in passes] == [[array.shape for array in passes[0]]] * len(
        passes
    )


@pytest.mark.parametrize("again", [True, False])
def test_the_first_samples_are_read_before_all_and_again_with_them(again):
    feeds = [{"x": X[start : start + 3]} for start in range(0, 10, 3)]
    opened = open_data(feeds if again else iter(feeds), INPUTS)
    for _ in range(2):
        assert [len(feed["x"]) for feed in opened.head(4)] == [3, 3]
    assert [len(feed["x"]) for feed in opened.head(100)] == [3, 3, 3, 1]
    np.testing.assert_array_equal(np.concatenate([feed["x"] for feed in opened]), X)


@pytest.mark.parametrize("again", [True, False])
def test_the_first_samples_alone_are_rows_where_feeds_can_be_cut(again):
    feeds = [{"x": X[start : start + 3]} for start in range(0, 10, 3)]
    opened = open_data(feeds if again else iter(feeds), INPUTS)
    assert [feed["x"].tolist() for feed in opened.rows(4)] == X[:4, None].tolist()
    assert len(opened.rows(100)) == 10
    np.testing.assert_array_equal(np.concatenate([feed["x"] for feed in opened]), X)


def test_the_first_samples_are_checked():
    opened = open_data(iter([{"x": X[:3]}, {"x": X[3:, :2]}]), INPUTS)
    with pytest.raises(CalibrationError, match="calibration data: sample 2"):
        opened.head(4)


@pytest.mark.parametrize("rows", [None, 4])
@pytest.mark.parametrize("kind", ["array", "file", "folder", "list", "rewind", "reset", "reset_iter"])
def test_what_can_be_opened_again_is_read_again(tmp_path, kind, rows):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "samples").mkdir()
    for index, row in enumerate(X):
        np.save(tmp_path / "samples" / f"{index}.npy", row[None])
    data = {
        "array": lambda: X,
        "file": lambda: tmp_path / "x.npy",
        "folder": lambda: tmp_path / "samples",
        "list": lambda: [X[:4], X[4:]],
    }.get(kind, lambda: Reader(**{kind: True}))()
    opened = open_data(data, INPUTS)
    if rows is not None:
        opened.resize(rows)
    _check(_passes(opened, 3))


def test_random_samples_are_the_same_again():
    first, second = _passes(open_data(RandomDataReader(5), INPUTS))
    np.testing.assert_array_equal(np.concatenate(first), np.concatenate(second))


@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("make", [lambda: iter([X[:4], X[4:]]), Reader], ids=["iterator", "reader"])
def test_what_is_read_once_is_kept_on_the_disk(make, rows):
    opened = open_data(make(), INPUTS)
    opened.keep()
    if rows is not None:
        opened.resize(rows)
    _check(_passes(opened, 3))


@pytest.mark.parametrize("make", [lambda: iter([X[:4], X[4:]]), Reader], ids=["iterator", "reader"])
def test_what_is_read_once_and_was_not_kept_is_refused(make):
    opened = open_data(make(), INPUTS)
    _check(_passes(opened, 1))
    message = r"^calibration data: expected samples that can be read again, got some that can be read once; pass files,"
    with pytest.raises(CalibrationError, match=message):
        next(iter(opened))


def test_nothing_is_written_where_data_can_be_opened_again(monkeypatch):
    monkeypatch.setattr("quarkfast.calibration.data.samples.Spool", None)
    opened = open_data(X, INPUTS)
    opened.keep()
    _check(_passes(opened))


def test_a_spool_keeps_types_strings_and_empty_arrays():
    feeds = [
        {"text": np.array(["a", "long word"], object), "ids": np.arange(6).reshape(2, 3)},
        {"text": np.array([], object), "ids": np.zeros((0, 3), np.int64)},
    ]
    spool = Spool()
    for feed in feeds:
        spool.write(feed)
    for _ in range(2):
        for found, feed in zip(spool, feeds, strict=True):
            assert list(found) == list(feed)
            for name, array in feed.items():
                np.testing.assert_array_equal(found[name], array)
                assert found[name].dtype == array.dtype


def test_a_disk_without_room_is_one_sentence(monkeypatch):
    spool = Spool()

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(CalibrationError, match=r"^calibration data: expected room to keep samples for another pass"):
        spool.write({"x": X})


def test_no_temporary_file_is_one_sentence(monkeypatch):
    def none(*arguments, **options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", none)
    with pytest.raises(CalibrationError, match=r"^calibration data: expected a temporary file for samples"):
        Spool()
