"""A calibration on disk: readable, exact, whole or not there."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os

import numpy as np
import pytest

import quarkfast
from quarkfast import Calibration
from quarkfast.errors import CalibrationError, OutputError
from support.tiny_models import conv_relu_model, samples


@pytest.fixture
def calibration():
    return quarkfast.calibrate(conv_relu_model(), samples(), moments=True, batch_size=3)


@pytest.fixture
def path(tmp_path, calibration):
    return calibration.save(tmp_path / "calibration.json")


def test_what_was_saved_is_loaded(path, calibration):
    loaded = Calibration.load(path)
    assert loaded == calibration
    assert (loaded.runs, loaded.batch_size, loaded.random, loaded.complete) == (3, 3, False, True)
    assert list(loaded.tensors) == list(calibration.tensors)


@pytest.mark.parametrize("options", [{"histogram": False}, {"moments": False}], ids=["ranges", "histograms"])
def test_what_was_not_gathered_is_not_there_afterwards(tmp_path, options):
    calibration = quarkfast.calibrate(conv_relu_model(), samples(), **options)
    assert Calibration.load(calibration.save(tmp_path / "c.json")) == calibration


def test_the_same_calibration_gives_the_same_bytes(tmp_path, calibration):
    (tmp_path / "other").mkdir()
    for folder in (tmp_path, tmp_path / "other"):
        calibration.save(folder / "c.json")
    for name in ("c.json", "c.npz"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_a_person_can_read_it(path):
    document = json.loads(path.read_text())
    assert document["samples"] == 8
    x = document["tensors"]["x"]
    assert x["count"] == samples().size
    assert (x["min"], x["max"]) == tuple(float(str(edge(samples()))) for edge in (np.min, np.max))
    assert x["bin_width"].startswith("2^-")


def test_a_tensor_without_finite_values_has_no_extremes(tmp_path):
    x = np.full((2, 3, 8, 8), np.nan, np.float32)
    with pytest.warns(UserWarning, match="expected finite values in input 'x'"):
        calibration = quarkfast.calibrate(conv_relu_model(), x)
    saved = calibration.save(tmp_path / "c.json")
    assert json.loads(saved.read_text())["tensors"]["x"]["min"] is None
    assert Calibration.load(saved) == calibration


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(CalibrationError, match=r"calibration: expected a file at '.*none\.json', got No such file"):
        Calibration.load(tmp_path / "none.json")


@pytest.mark.parametrize("content", [b"", b"no json", b"\xff\xfe"], ids=["empty", "text", "bytes"])
def test_another_kind_of_file_is_one_sentence(tmp_path, content):
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(CalibrationError, match=r"calibration: expected JSON at '.*c\.json', got another kind of file"):
        Calibration.load(tmp_path / "c.json")


def test_a_later_version_is_one_sentence(path):
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(
        CalibrationError, match=r"expected version 1 of the format at .*, got 2; use the quarkfast that"
    ):
        Calibration.load(path)


def test_missing_arrays_are_one_sentence(path):
    path.with_suffix(".npz").unlink()
    with pytest.raises(
        CalibrationError, match=r"expected its arrays at '.*calibration\.npz', got No such file .*; keep"
    ):
        Calibration.load(path)


def test_arrays_of_another_calibration_are_one_sentence(path):
    np.savez(path.with_suffix(".npz"), counts=np.ones(3))
    with pytest.raises(CalibrationError, match=r"expected the arrays at .* that the JSON file was written with, got"):
        Calibration.load(path)


@pytest.mark.parametrize("field", ["tensors", "samples", "arrays", "model_and_settings"])
def test_a_missing_field_is_one_sentence(path, field):
    document = json.loads(path.read_text())
    del document[field]
    path.write_text(json.dumps(document))
    with pytest.raises(CalibrationError, match=r"calibration: expected a whole file at .*, got a damaged one"):
        Calibration.load(path)


@pytest.mark.parametrize("entry", [3, {}, {"min": "a"}], ids=str)
def test_a_damaged_entry_is_one_sentence(path, entry):
    document = json.loads(path.read_text())
    document["tensors"]["x"] = entry
    path.write_text(json.dumps(document))
    with pytest.raises(CalibrationError, match="got a damaged one"):
        Calibration.load(path)


@pytest.mark.parametrize("which", [1, 2], ids=["arrays", "json"])
@pytest.mark.parametrize("old", [True, False], ids=["over an old one", "where there was none"])
def test_a_full_disk_leaves_nothing_half(tmp_path, calibration, monkeypatch, which, old):
    path = tmp_path / "c.json"
    if old:
        quarkfast.calibrate(conv_relu_model(), samples(3), path)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == which:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"output: expected to write '.*', got No space left on device"):
        calibration.save(path)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_a_folder_that_does_not_exist_is_told_before_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr("quarkfast.ort.run", None)
    with pytest.raises(OutputError, match="output: expected an existing folder, got"):
        quarkfast.calibrate(conv_relu_model(), samples(), tmp_path / "none" / "c.json")


WRONG = [None, True, -1, 1.5, 10**400, 2**63, float("inf"), float("nan"), "", "\0", "../x", [], {}, {"a": 1}]
FIELDS = [
    *(("model_and_settings",), ("samples",), ("runs",), ("random",), ("batch_size",), ("complete",)),
    *(("arrays",), ("arrays", "file"), ("arrays", "sha256"), ("tensors",), ("tensors", "x")),
    *(("tensors", "x", name) for name in ("min", "max", "count", "nan", "zero", "observations")),
]


@pytest.mark.parametrize("field", FIELDS, ids=".".join)
def test_a_field_of_another_type_or_size_is_one_sentence_or_harmless(path, field):
    whole = path.read_text()
    for wrong in WRONG:
        document = json.loads(whole)
        owner = document
        for name in field[:-1]:
            owner = owner[name]
        owner[field[-1]] = wrong
        path.write_text(json.dumps(document))
        for use in (
            lambda: quarkfast.quantize(conv_relu_model(), calibration=path),
            lambda: quarkfast.merge_calibrations([path, path]),
        ):
            with contextlib.suppress(CalibrationError):
                use()


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        (("model_and_settings",), True),
        (("samples",), -1),
        (("random",), 1),
        (("tensors", "x", "nan"), float("inf")),
        (("tensors", "x", "zero"), 10**6),
        (("tensors", "x", "min"), 1e39),
        (("tensors", "x", "min"), None),
        (("tensors", "x", "count"), 2**64),
    ],
    ids=str,
)
def test_a_field_that_cannot_be_is_one_sentence(path, field, wrong):
    document = json.loads(path.read_text())
    owner = document
    for name in field[:-1]:
        owner = owner[name]
    owner[field[-1]] = wrong
    path.write_text(json.dumps(document))
    with pytest.raises(CalibrationError, match=r"calibration: expected a whole file at .*, got a damaged one"):
        Calibration.load(path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000], ids=["lists", "objects", "digits"])
def test_json_that_cannot_be_read_is_one_sentence(tmp_path, text):
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(CalibrationError, match=r"calibration: expected JSON at .*, got another kind of file"):
        Calibration.load(path)


@pytest.mark.parametrize("name", ["extremes", "counts", "exponents", "sums"])
@pytest.mark.parametrize(
    "change",
    [
        lambda array: array[:1],
        lambda array: array.astype(complex),
        lambda array: array.ravel()[:3],
        lambda array: np.full(array.shape, 2**62, np.int64),
        lambda array: np.array("x"),
    ],
    ids=["rows", "complex", "shape", "values", "text"],
)
def test_arrays_that_cannot_be_are_one_sentence(path, name, change):
    arrays = path.with_suffix(".npz")
    with np.load(arrays) as found:
        changed = dict(found)
    changed[name] = change(changed[name])
    np.savez(arrays, **changed)
    document = json.loads(path.read_text())
    document["arrays"]["sha256"] = hashlib.sha256(arrays.read_bytes()).hexdigest()
    path.write_text(json.dumps(document))
    with pytest.raises(CalibrationError, match="got a damaged one"):
        Calibration.load(path)
