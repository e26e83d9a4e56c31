"""Arrays in files: any rows, at any time, without reading the rest."""

from __future__ import annotations

import io
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from quarkfast.calibration.data import array_files, open_data
from quarkfast.calibration.data.array_files import StoredArray, open_arrays, read_arrays
from quarkfast.calibration.data.inputs import ModelInput
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


def _npy(header, version=b"\x01\x00", data=b""):
    size = len(header).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + size + header.encode() + data


def _shaped(shape, descr="<f4", **options):
    return _npy(f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n", **options)


HEADERS = {
    "below 0": (_shaped("(-1, 3, 8, 8)"), r"a header of the shape \[-1, 3, 8, 8\]"),
    "beyond 64 bits": (_shaped(f"({10**23}, 4)"), r"a header of the shape"),
    "beyond 64 bits beside 0": (_shaped(f"(0, {2**62}, {2**62})"), r"a header of the shape"),
    "more than there is": (_shaped(f"({2**40}, 4)"), r"it ends \d+ bytes early"),
    "long header": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", r"a header of 4294967295 bytes"),
    "longer than the file": (b"\x93NUMPY\x02\x00\x00\x10\x00\x00{", r"it ends 4095 bytes early"),
    "brackets": (_npy("(" * 9000), r"a header|[Cc]annot parse"),
    "no header": (_npy("\x00\xff["), r"a header|[Cc]annot parse"),
    "another header": (_npy("{'descr': 3}"), r"[Hh]eader"),
    "wrong type": (_shaped("(1.5,)"), r"shape"),
    "objects": (_shaped("(1,)", "|O"), r"it holds Python objects"),
    "objects inside": (_npy("{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,), }"), r"Python objects"),
}


@pytest.mark.parametrize("content", HEADERS, ids=str)
@pytest.mark.parametrize("kind", ["npy", "stored", "compressed"])
def test_a_header_that_cannot_be_is_one_sentence_and_takes_no_memory(tmp_path, content, kind):
    data, sentence = HEADERS[content]
    path = tmp_path / "data"
    if kind == "npy":
        path.write_bytes(data)
    else:
        packing = zipfile.ZIP_STORED if kind == "stored" else zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(path, "w", packing) as archive:
            archive.writestr("x.npy", data)
    tracemalloc.start()
    try:
        with pytest.raises(CalibrationError, match=sentence):
            open_arrays(path)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("damage", ["method", "password", "half"])
def test_an_archive_that_cannot_be_unpacked_is_one_sentence(tmp_path, damage):
    path = _write(tmp_path, "compressed npz")
    data = bytearray(path.read_bytes())
    central = data.index(b"PK\x01\x02")
    if damage == "method":
        data[central + 10] = data[8] = 99
    elif damage == "password":
        data[central + 8] |= 1
        data[6] |= 1
    else:
        del data[central:-22]
    path.write_bytes(data)
    with pytest.raises(CalibrationError, match="got another kind at"):
        open_arrays(path)


@pytest.mark.parametrize("kind", ["npy", "stored npz", "compressed npz"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])
def test_what_a_header_says_is_held_against_the_model_before_a_value_is_read(
    tmp_path, monkeypatch, kind, order, folder
):
    wanted = [ModelInput("x", np.dtype(np.float32), ("N", 3, 8, 8))]
    path = _write(tmp_path, kind, np.zeros((1, 3, 8, 8000), np.float32, order=order))
    path = path.rename(tmp_path / ("data.npy" if kind == "npy" else "data.npz"))
    read, exactly = [], array_files._exactly
    monkeypatch.setattr(array_files, "_exactly", lambda stream, size: read.append(size) or exactly(stream, size))
    expected = r"input 'x': expected shape \[N, 3, 8, 8\], got \[1, 3, 8, 8000\]"
    if kind != "npy":
        wanted.append(ModelInput("y", np.dtype(np.float32), ("N", 3, 8, 8)))
    with pytest.raises(CalibrationError, match=expected):
        open_data(tmp_path if folder else path, wanted)
    assert max(read) < 1000


@pytest.mark.parametrize(
    "array", [np.zeros((4, 9), np.int8), np.zeros((4, 8), np.float64), np.zeros((4, 8, 8), np.float32)]
)
def test_another_dtype_rank_or_size_is_told_of_files_of_a_folder(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(CalibrationError, match=r"a\.npy: input 'x': expected"):
        open_data(tmp_path, [ModelInput("x", np.dtype(np.float32), (2, 8))])
