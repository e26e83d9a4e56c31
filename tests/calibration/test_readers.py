from __future__ import annotations

import numpy as np
import pytest

from quarkfast.calibration.data import ModelInput, read_feeds
from quarkfast.calibration.data.array_files import StoredArray
from quarkfast.errors import CalibrationError

IMAGE = (ModelInput("image", np.dtype(np.float32), ("N", 3, 4, 4)),)
TWO = (ModelInput("a", np.dtype(np.float32), ("N", 2)), ModelInput("b", np.dtype(np.int64), ("N",)))


def _images(count):
    return np.arange(count * 48, dtype=np.float32).reshape(count, 3, 4, 4) / 1024


class _Reader:
    def __init__(self, feeds, rewinds=False):
        self._feeds = feeds
        self._left = iter(feeds)
        if rewinds:
            self.rewind = lambda: setattr(self, "_left", iter(self._feeds))

    def get_next(self):
        return next(self._left, None)


def _all(data, inputs=IMAGE, **options):
    return [{name: array.copy() for name, array in feed.items()} for feed in read_feeds(data, inputs, **options)]


def _save(folder, kind, data):
    path = folder / f"data.{kind}"
    np.savez(path, **data) if kind == "npz" else np.save(path, data)
    return path


@pytest.mark.parametrize("kind", ["array", "dict", "npz", "npy", "npy as text"])
def test_arrays_and_files_are_cut_into_batches(tmp_path, kind):
    data = {
        "array": lambda: _images(10),
        "dict": lambda: {"image": _images(10)},
        "npz": lambda: _save(tmp_path, "npz", {"image": _images(10)}),
        "npy": lambda: _save(tmp_path, "npy", _images(10)),
        "npy as text": lambda: str(_save(tmp_path, "npy", _images(10))),
    }[kind]()
    feeds = _all(data, batch_size=4)
    assert [len(feed["image"]) for feed in feeds] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate([feed["image"] for feed in feeds]), _images(10))


@pytest.mark.parametrize("kind", ["list of arrays", "list of dicts", "generator", "tuples", "reader"])
def test_iterables_and_readers_are_fed_as_they_come(kind):
    data = {
        "list of arrays": lambda: [_images(2), _images(3)],
        "list of dicts": lambda: [{"image": _images(2)}, {"image": _images(3)}],
        "generator": lambda: (_images(count) for count in (2, 3)),
        "tuples": lambda: [(_images(2),), (_images(3),)],
        "reader": lambda: _Reader([{"image": _images(2)}, {"image": _images(3)}]),
    }[kind]()
    assert [len(feed["image"]) for feed in _all(data)] == [2, 3]


def test_a_reader_that_was_read_is_rewound_if_it_can_be():
    reader = _Reader([{"image": _images(2)}], rewinds=True)
    assert len(_all(reader)) == len(_all(reader)) == 1


def test_samples_counts_rows_of_arrays_and_items_of_iterables():
    assert [len(feed["image"]) for feed in _all(_images(10), samples=5, batch_size=4)] == [4, 1]
    assert len(_all([_images(2)] * 6, samples=3)) == 3


def test_no_more_is_read_than_asked_for():
    seen = []
    feeds = (seen.append(index) or _images(1) for index in range(100))
    _all(feeds, samples=3)
    assert seen == [0, 1, 2]


def test_a_fixed_batch_size_of_the_model_is_used():
    fixed = (ModelInput("image", np.dtype(np.float32), (2, 3, 4, 4)),)
    assert [len(feed["image"]) for feed in _all(_images(6), fixed)] == [2, 2, 2]
    with pytest.raises(CalibrationError, match="expected a multiple of the model's batch size 2, got 5 samples"):
        _all(_images(5), fixed)


def test_no_data_is_one_sentence():
    with pytest.raises(CalibrationError, match="calibration data: expected samples, which the preset needs"):
        _all(None)


@pytest.mark.parametrize("kind", ["list", "array", "dict", "reader", "generator"])
def test_empty_data_is_one_sentence(kind):
    data = {"list": [], "array": _images(0), "dict": {}, "reader": _Reader([]), "generator": iter(())}[kind]
    with pytest.raises(CalibrationError, match="calibration data: expected at least one sample, got none"):
        _all(data)


def test_an_iterator_that_was_read_says_so():
    feeds = iter([_images(1)])
    _all(feeds)
    with pytest.raises(CalibrationError, match="an iterator that has been read once is empty, pass a fresh one"):
        _all(feeds)


def test_a_wrong_name_is_one_sentence_with_a_suggestion():
    message = r"calibration data: sample 1: expected inputs 'image', got 'imag'; did you mean 'image'\?"
    with pytest.raises(CalibrationError, match=message):
        _all({"imag": _images(1)})


def test_a_missing_input_is_one_sentence():
    with pytest.raises(CalibrationError, match="sample 1: expected inputs 'a', 'b', got only 'a'"):
        _all([{"a": np.ones((1, 2), np.float32)}], TWO)


@pytest.mark.parametrize("dtype", [np.float64, np.uint8, np.float16])
def test_a_wrong_dtype_is_one_sentence(dtype):
    message = f"input 'image': expected dtype float32, got {np.dtype(dtype)}; preprocess as the model's own code does"
    with pytest.raises(CalibrationError, match=message):
        _all(_images(1).astype(dtype))


def test_a_missing_batch_dimension_is_one_sentence_with_a_hint():
    message = r"input 'image': expected shape \[N, 3, 4, 4\], got \[3, 4, 4\]; the batch dimension is missing"
    with pytest.raises(CalibrationError, match=message):
        _all([_images(1)[0]])


def test_channels_last_is_one_sentence_with_a_hint():
    message = r"expected shape \[N, 3, 4, 4\], got \[1, 4, 4, 3\]; the channels come first \(NCHW\)"
    with pytest.raises(CalibrationError, match=message):
        _all(_images(2).transpose(0, 2, 3, 1))


def test_a_later_sample_is_checked_too():
    with pytest.raises(CalibrationError, match=r"sample 2: input 'image': expected shape .*, got \[1, 3, 5, 4\]$"):
        _all([_images(1), np.ones((1, 3, 5, 4), np.float32)])


def test_inputs_of_different_lengths_are_one_sentence():
    with pytest.raises(CalibrationError, match="the same number of samples for every input, got 'a' 2, 'b' 3"):
        _all({"a": np.ones((2, 2), np.float32), "b": np.ones(3, np.int64)}, TWO)


def test_too_few_arrays_are_one_sentence():
    message = "expected one array for each of the inputs 'a', 'b', got 1; pass dicts by input name"
    with pytest.raises(CalibrationError, match=message):
        _all([np.ones((2, 2), np.float32)], TWO)


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(CalibrationError, match=r"expected a file or a folder, got no such file at"):
        _all(tmp_path / "none.npz")


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 no zip"], ids=["empty", "text", "truncated zip"])
def test_another_kind_of_file_is_one_sentence(tmp_path, content):
    path = tmp_path / "data.npz"
    path.write_bytes(content)
    with pytest.raises(CalibrationError, match=r"expected an \.npz or \.npy file, got another kind at"):
        _all(path)


def test_pickled_data_is_refused(tmp_path):
    path = tmp_path / "data.npy"
    np.save(path, np.array([{"image": 1}], object), allow_pickle=True)
    with pytest.raises(CalibrationError, match="got another kind at"):
        _all(path)


def test_another_type_is_one_sentence():
    message = "expected a path, arrays, a reader with get_next or an iterable, got int"
    with pytest.raises(CalibrationError, match=message):
        _all(3)


class _Tensor:
    """What a training framework's tensor looks like from outside."""

    def __init__(self, array):
        self._array = array
        self.steps = []

    def detach(self):
        self.steps.append("detach")
        return self

    def cpu(self):
        self.steps.append("cpu")
        return self

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._array, dtype)


class _Loader:
    def __iter__(self):
        return iter(
            [[_Tensor(_images(2)), _Tensor(np.int64([0, 1]))], [_Tensor(_images(3)), _Tensor(np.int64([0] * 3))]]
        )


def test_a_loader_of_tensors_and_labels_needs_no_framework():
    feeds = _all(_Loader())
    assert [len(feed["image"]) for feed in feeds] == [2, 3]
    np.testing.assert_array_equal(feeds[1]["image"], _images(3))


def test_a_tensor_on_a_device_is_fetched():
    tensor = _Tensor(_images(1))
    _all([tensor])
    assert tensor.steps == ["detach", "cpu"]


@pytest.mark.parametrize("item", ["dict and label", "tuple and label"])
def test_inputs_in_front_of_a_label_are_taken(item):
    a, b = np.ones((2, 2), np.float32), np.ones(2, np.int64)
    data = {"dict and label": ({"a": a, "b": b}, 1), "tuple and label": ((a, b), 1)}[item]
    assert list(_all([data], TWO)[0]) == ["a", "b"]


def test_something_that_is_no_array_is_one_sentence():
    with pytest.raises(CalibrationError, match="sample 1: input 'image': expected an array, got set"):
        _all([{"image": {1}}])


def test_iterables_are_joined_and_cut_where_a_batch_size_is_given():
    data = [_images(1)] * 5 + [_images(4)]
    assert [len(feed["image"]) for feed in _all(iter(data), batch_size=3)] == [3, 3, 3]


def test_iterables_fill_the_batch_that_the_model_fixes():
    fixed = (ModelInput("image", np.dtype(np.float32), (2, 3, 4, 4)),)
    assert [len(feed["image"]) for feed in _all([_images(1)] * 4, fixed, batch_size=2)] == [2, 2]
    message = (
        r"expected shape \[2, 3, 4, 4\], got \[1, 3, 4, 4\]; batch_size=2 joins and cuts samples to the model's batch"
    )
    with pytest.raises(CalibrationError, match=message):
        _all([_images(1)] * 4, fixed)


def test_a_batch_size_for_inputs_of_different_first_dimensions_is_one_sentence():
    inputs = (ModelInput("a", np.dtype(np.float32), ("N",)), ModelInput("b", np.dtype(np.float32), ("M",)))
    message = r"batch_size: expected a model whose inputs share their first dimension, got 'a' \[N\], 'b' \[M\]; leave"
    with pytest.raises(CalibrationError, match=message):
        _all([{"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)}], inputs, batch_size=2)


def test_inputs_of_different_lengths_cannot_be_joined():
    feed = {"a": np.ones((2, 2), np.float32), "b": np.ones(3, np.int64)}
    with pytest.raises(CalibrationError, match=r"expected 2 rows for every input of a sample, got \[3\] for 'b'"):
        _all([feed], TWO, batch_size=2)


def test_sentences_of_varying_length_are_fed_one_shape_at_a_time():
    words = (ModelInput("ids", np.dtype(np.int64), ("N", "S")),)
    data = [np.ones((1, length), np.int64) for length in (3, 3, 5, 5, 5, 3)]
    assert [feed["ids"].shape for feed in _all(data, words, batch_size=2)] == [(2, 3), (2, 5), (1, 5), (1, 3)]


def test_whatever_a_reader_raises_becomes_a_sentence_with_its_cause():
    def reader():
        yield _images(1)
        raise KeyError("lost.jpg")

    feeds = read_feeds(reader(), IMAGE)
    next(feeds)
    message = "calibration data: sample 2: expected the reader to give it, got KeyError: 'lost.jpg'"
    with pytest.raises(CalibrationError, match=message) as caught:
        next(feeds)
    assert isinstance(caught.value.__cause__, KeyError)


def test_whole_pixels_are_warned_of():
    pixels = np.full((1, 3, 4, 4), 200, np.float32)
    with pytest.warns(
        UserWarning, match="input 'image': all values are whole numbers from 200 to 200; if the model was"
    ):
        _all(pixels)


@pytest.mark.parametrize("value", [1, 0.5, -200, 300], ids=str)
def test_other_values_are_not_warned_of(value):
    _all(np.full((1, 3, 4, 4), value, np.float32))


def test_channels_first_for_a_model_of_channels_last_has_a_hint():
    inputs = (ModelInput("image", np.dtype(np.float32), ("N", 4, 4, 3)),)
    with pytest.raises(CalibrationError, match=r"got \[1, 3, 4, 4\]; the channels come last \(NHWC\)"):
        _all(_images(1), inputs)


def test_a_file_is_read_one_batch_at_a_time(tmp_path, monkeypatch):
    path = _save(tmp_path, "npz", {"image": _images(10)})
    read = []
    original = StoredArray.__getitem__
    monkeypatch.setattr(StoredArray, "__getitem__", lambda self, rows: read.append(rows) or original(self, rows))
    feeds = read_feeds(path, IMAGE, batch_size=4)
    next(feeds)
    assert read == [slice(0, 4)]
