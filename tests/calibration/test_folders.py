"""Folders of arrays and of images."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast.calibration.data import ModelInput, open_data, read_feeds
from quarkfast.calibration.data.folders import open_folder
from quarkfast.errors import CalibrationError

ONE = (ModelInput("x", np.dtype(np.float32), ("N", 4)),)
TWO = (ModelInput("a", np.dtype(np.float32), ("N", 2)), ModelInput("b", np.dtype(np.int64), ("N",)))


def _row(index, width=4):
    return np.full((1, width), index / 16, np.float32)


def _values(feeds, name="x"):
    return np.concatenate([feed[name][:, 0] for feed in feeds]) * 16


@pytest.mark.parametrize("batched", [True, False], ids=["with batch dimension", "without"])
@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_files_are_samples_in_the_order_of_their_names(tmp_path, kind, batched):
    for index in (2, 0, 1):
        array = _row(index) if batched else _row(index)[0]
        path = tmp_path / f"{index}.{kind}"
        np.save(path, array) if kind == "npy" else np.savez(path, x=array)
    (tmp_path / "notes.txt").write_text("left alone")
    np.testing.assert_array_equal(_values(read_feeds(tmp_path, ONE)), [0, 1, 2])


def test_files_of_several_rows_are_cut_and_joined(tmp_path):
    for index, rows in enumerate((3, 1, 4)):
        np.save(tmp_path / f"{index}.npy", np.zeros((rows, 4), np.float32))
    assert [len(feed["x"]) for feed in read_feeds(str(tmp_path), ONE, batch_size=3)] == [3, 3, 2]


def test_one_folder_an_input(tmp_path):
    for index in range(3):
        for name, array in (("a", _row(index, 2)), ("b", np.int64([index]))):
            (tmp_path / name).mkdir(exist_ok=True)
            np.save(tmp_path / name / f"{index}.npy", array)
    feeds = list(read_feeds(tmp_path, TWO, batch_size=2))
    assert [feed["b"].tolist() for feed in feeds] == [[0, 1], [2]]
    np.testing.assert_array_equal(_values(feeds, "a"), [0, 1, 2])


def test_a_file_that_only_one_input_has_is_one_sentence(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    np.save(tmp_path / "a" / "0.npy", _row(0, 2))
    with pytest.raises(CalibrationError, match=r"the same file names for every input in .*, got '0\.npy' for only one"):
        list(read_feeds(tmp_path, TWO))


def test_of_more_files_than_asked_for_some_are_taken_in_equal_steps(tmp_path):
    for index in range(9):
        np.save(tmp_path / f"{index}.npy", _row(index))
    np.testing.assert_array_equal(_values(read_feeds(tmp_path, ONE, samples=3)), [0, 3, 6])


@pytest.mark.parametrize("content", ["nothing", "text"])
def test_a_folder_without_samples_is_one_sentence(tmp_path, content):
    if content == "text":
        (tmp_path / "a.txt").write_text("a")
    with pytest.raises(CalibrationError, match=r"expected \.npy, \.npz or image files in '.*', got none"):
        list(read_feeds(tmp_path, ONE))


def test_a_file_of_another_kind_among_them_is_one_sentence(tmp_path):
    np.save(tmp_path / "0.npy", _row(0))
    (tmp_path / "1.npy").write_bytes(b"text")
    with pytest.raises(CalibrationError, match=r"got another kind at '.*1\.npy'"):
        list(read_feeds(tmp_path, ONE))


def test_arrays_of_a_model_of_two_inputs_need_names(tmp_path):
    np.save(tmp_path / "0.npy", _row(0))
    with pytest.raises(CalibrationError, match=r"0\.npy: expected one array for each of the inputs 'a', 'b', got 1"):
        list(read_feeds(tmp_path, TWO))


def test_a_folder_is_listed_without_reading_it(tmp_path):
    for index in range(3):
        (tmp_path / f"{index}.npy").write_bytes(b"")
    assert len(open_folder(tmp_path, ONE)) == 3


def test_arrays_and_images_in_one_folder_are_one_sentence(tmp_path):
    np.save(tmp_path / "0.npy", _row(0))
    (tmp_path / "0.png").write_bytes(b"")
    with pytest.raises(CalibrationError, match=r"expected arrays or images in '.*', got 1 and 1"):
        open_data(tmp_path, ONE)
