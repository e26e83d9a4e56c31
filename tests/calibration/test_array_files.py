"""Arrays in files: any rows, at any time, without reading the rest."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from quarkfast.calibration.data.array_files import StoredArray, open_arrays, read_arrays
from quarkfast.errors import CalibrationError

OPEN_FILES = Path("/proc/self/fd")
DATA = np.arange(7 * 3 * 5, dtype=np.float32).reshape(7, 3, 5)


def _write(folder, kind, array=DATA):
    path = folder / "data"
    with path.open("wb") as stream:
        {"npy": np.save, "stored npz": np.savez, "compressed npz": np.savez_compressed}[kind](
            stream, **({"arr": array} if kind == "npy" else {"x": array, "y": array + 1})
        )
    return path


def _open(path):
    arrays = open_arrays(path)
    return arrays if isinstance(arrays, StoredArray) else arrays["x"]


@pytest.mark.parametrize("kind", ["npy", "stored npz", "compressed npz"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_those_of_the_array(tmp_path, kind, order):
    array = _open(_write(tmp_path, kind, np.asarray(DATA, order=order)))
    assert (array.shape, array.dtype, len(array)) == (DATA.shape, DATA.dtype, 7)
    for start, stop in [(0, 2), (2, 5), (6, 9), (1, 3), (4, 4), (0, 7)]:
        np.testing.assert_array_equal(array[start:stop], DATA[start:stop])
    np.testing.assert_array_equal(array.whole(), DATA)


@pytest.mark.parametrize("kind", ["npy", "stored npz", "compressed npz"])
@pytest.mark.parametrize("shape", [(), (0, 4), (3,)], ids=str)
def test_scalars_and_empty_arrays_are_read_too(tmp_path, kind, shape):
    array = _open(_write(tmp_path, kind, np.ones(shape, np.int64)))
    np.testing.assert_array_equal(array.whole(), np.ones(shape, np.int64))
    assert len(array) == (shape[0] if shape else 0)


@pytest.mark.parametrize("kind", ["npy", "stored npz"])
def test_rows_that_lie_in_one_piece_are_read_alone_and_not_mapped(tmp_path, monkeypatch, kind):
    # Mapped pages count as memory of the process until all of the file is in it.
    array, read = _open(_write(tmp_path, kind)), []
    original = np.fromfile
    monkeypatch.setattr(
        np, "fromfile", lambda *args, **options: read.append(options["count"]) or original(*args, **options)
    )
    rows = array[2:4]
    assert read == [2 * 3 * 5]
    assert type(rows) is np.ndarray


@pytest.mark.parametrize("kind", ["npy", "stored npz"])
def test_a_file_cut_while_it_is_read_is_told(tmp_path, kind):
    path = _write(tmp_path, kind, np.zeros((64, 1024), np.float32))
    array = _open(path)
    with path.open("r+b") as stream:
        stream.truncate(4096)
    with pytest.raises(CalibrationError, match=r"it ends .* bytes early"):
        array[0:64]


def test_a_compressed_member_is_read_only_as_far_as_asked(tmp_path, monkeypatch):
    path = _write(tmp_path, "compressed npz", np.zeros((1000, 1000), np.float32))
    array, read = _open(path), []
    original = zipfile.ZipExtFile.read
    monkeypatch.setattr(zipfile.ZipExtFile, "read", lambda self, n=-1: read.append(n) or original(self, n))
    for start in (0, 8, 16):
        array[start : start + 8]
    assert sum(read) <= 24 * 4000 + 1024, "expected 24 rows and the header"


def test_every_member_is_found_by_its_name(tmp_path):
    arrays = read_arrays(_write(tmp_path, "compressed npz"))
    assert list(arrays) == ["x", "y"]
    np.testing.assert_array_equal(arrays["y"], DATA + 1)


@pytest.mark.parametrize("kind", ["npy", "stored npz"])
def test_objects_are_refused_because_they_could_run_code(tmp_path, kind):
    path = tmp_path / "data"
    with path.open("wb") as stream:
        data = np.array([{"a": 1}], object)
        np.save(stream, data) if kind == "npy" else np.savez(stream, x=data)
    with pytest.raises(CalibrationError, match=r"got another kind at .* \(it holds Python objects\)"):
        open_arrays(path)


def test_a_pickle_is_no_array(tmp_path):
    path = tmp_path / "data.npy"
    path.write_bytes(pickle.dumps([1]))
    with pytest.raises(CalibrationError, match=r"got another kind at .* \(neither magic number\)"):
        open_arrays(path)


def test_an_unknown_version_of_the_format_is_refused(tmp_path):
    path = tmp_path / "data.npy"
    path.write_bytes(b"\x93NUMPY\x09\x00")
    with pytest.raises(CalibrationError, match=r"version \(9, 0\) of the format"):
        open_arrays(path)


def test_a_file_cut_short_is_told_when_it_is_opened(tmp_path):
    stream = io.BytesIO()
    np.save(stream, DATA)
    path = tmp_path / "data.npy"
    path.write_bytes(stream.getvalue()[:-8])
    with pytest.raises(
        CalibrationError, match=r"expected an \.npz or \.npy file, got another kind at .* \(it ends 8 bytes early\)"
    ):
        open_arrays(path)


def test_a_damaged_member_is_told(tmp_path):
    path = _write(tmp_path, "compressed npz", np.random.default_rng(0).normal(size=(64, 64)))
    data = bytearray(path.read_bytes())
    data[2000:3000] = bytes(1000)
    path.write_bytes(data)
    array = _open(path)
    with pytest.raises(CalibrationError, match="got another kind at") as failure:
        array[0:64]
    assert failure.tb is not None  # which holds what the functions on the way held
    if OPEN_FILES.is_dir():
        assert path not in [each.resolve() for each in OPEN_FILES.iterdir()]
