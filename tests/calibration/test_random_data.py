"""Random samples: only by name, always the same, and said in the model."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast.calibration.data import ModelInput, RandomDataReader, open_data, read_feeds
from quarkfast.errors import CalibrationError
from support.tiny_models import conv_relu_model, samples

INPUTS = (
    ModelInput("image", np.dtype(np.float32), ("N", "C", "H", "W")),
    ModelInput("tokens", np.dtype(np.int64), ("N", "S")),
    ModelInput("flag", np.dtype(np.bool_), ()),
    ModelInput("text", np.dtype(object), ("N",)),
)


def test_open_dimensions_have_usual_sizes():
    feed = next(read_feeds(RandomDataReader(samples=1), INPUTS))
    assert {name: array.shape for name, array in feed.items()} == {
        "image": (1, 3, 32, 32),
        "tokens": (1, 16),
        "flag": (),
        "text": (1,),
    }
    assert (feed["image"].dtype, feed["tokens"].dtype) == (np.float32, np.int64)
    assert 0 <= feed["image"].min() < feed["image"].max() < 1
    assert set(feed["tokens"].ravel().tolist()) == {0, 1}


def test_shapes_and_ranges_can_be_given():
    reader = RandomDataReader(samples=2, shapes={"tokens": (4, 100)}, ranges={"tokens": (5, 7), "image": (-2, -1)})
    feed = next(read_feeds(reader, INPUTS))
    assert feed["tokens"].shape == (4, 100)
    assert sorted(set(feed["tokens"].ravel().tolist())) == [5, 6, 7]
    assert -2 <= feed["image"].min() < feed["image"].max() < -1


def test_samples_do_not_depend_on_the_batch_size():
    wanted = INPUTS[:1]
    whole = np.concatenate([feed["image"] for feed in read_feeds("random", wanted, samples=5)])
    for batch_size in (1, 2, 5):
        feeds = list(read_feeds("random", wanted, samples=5, batch_size=batch_size))
        np.testing.assert_array_equal(np.concatenate([feed["image"] for feed in feeds]), whole)


def test_another_seed_gives_other_samples():
    first, second = (next(read_feeds(RandomDataReader(seed=seed), INPUTS[:1]))["image"] for seed in (1, 2))
    assert not np.array_equal(first, second)


def test_an_input_that_the_model_does_not_have_is_one_sentence():
    message = r"RandomDataReader: expected inputs 'image', .*, got 'imag'; did you mean 'image'\?"
    with pytest.raises(CalibrationError, match=message):
        open_data(RandomDataReader(ranges={"imag": (0, 1)}), INPUTS)


def test_no_samples_are_one_sentence():
    with pytest.raises(ValueError, match="RandomDataReader: samples: expected 1 or more, got 0"):
        RandomDataReader(samples=0)


def test_a_model_calibrated_on_random_data_says_so():
    stamp = "random data: the ranges of activations mean nothing"
    for data in ("random", RandomDataReader()):
        proto = quarkfast.quantize(conv_relu_model(), calibration_data=data).proto
        assert {prop.key: prop.value for prop in proto.metadata_props}["quarkfast.calibration"] == stamp
    proto = quarkfast.quantize(conv_relu_model(), calibration_data=samples()).proto
    assert "quarkfast.calibration" not in {prop.key for prop in proto.metadata_props}
