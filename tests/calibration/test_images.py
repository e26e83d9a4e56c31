"""Image files as model inputs."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from quarkfast.calibration.data import PREPROCESSES, ModelInput, open_data, read_feeds
from quarkfast.calibration.data.images import find_preprocess, load_image
from quarkfast.calibration.data.shown_images import show_images
from quarkfast.errors import CalibrationError, DependencyError

F32 = np.dtype(np.float32)


@pytest.fixture
def pillow():
    return pytest.importorskip("PIL.Image", reason="no Pillow: the extra `images` is not installed")


def _input(shape, dtype=F32):
    return ModelInput("image", dtype, shape)


def _pixels(height, width, channels=3):
    return np.random.default_rng(3).integers(0, 256, (height, width, channels), np.uint8)


def _save(pillow, path, pixels):
    path.parent.mkdir(exist_ok=True)
    pillow.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0]).save(path)
    return path


def test_none_gives_the_bare_pixels_channels_first(tmp_path, pillow):
    pixels = _pixels(5, 7)
    path = _save(pillow, tmp_path / "a.png", pixels)
    got = load_image(path, _input(("N", 3, 5, 7)), PREPROCESSES["none"])
    np.testing.assert_array_equal(got, pixels.transpose(2, 0, 1).astype(np.float32))


def test_a_model_of_channels_last_gets_them_last_and_in_its_dtype(tmp_path, pillow):
    pixels = _pixels(5, 7)
    path = _save(pillow, tmp_path / "a.png", pixels)
    got = load_image(path, _input(("N", 5, 7, 3), np.dtype(np.uint8)), PREPROCESSES["none"])
    np.testing.assert_array_equal(got, pixels)


@pytest.mark.parametrize("name", ["imagenet", "cifar"])
def test_normalizing_divides_by_255_and_takes_mean_and_deviation_off(tmp_path, pillow, name):
    row = PREPROCESSES[name]
    size = 32 if name == "cifar" else 256
    pixels = _pixels(size, size)
    path = _save(pillow, tmp_path / "a.png", pixels)
    got = load_image(path, _input(("N", 3, "H", "W")), row)
    middle = pixels[16:240, 16:240] if name == "imagenet" else pixels
    expected = (middle.astype(np.float32) / np.float32(255) - np.float32(row.mean)) / np.float32(row.std)
    np.testing.assert_array_equal(got, expected.transpose(2, 0, 1))


@pytest.mark.parametrize("shape", [(300, 200), (200, 300), (64, 64)], ids=str)
@pytest.mark.parametrize("name", ["imagenet", "cifar", "yolo"])
def test_the_size_is_the_models(tmp_path, pillow, name, shape):
    path = _save(pillow, tmp_path / "a.png", _pixels(*shape))
    assert load_image(path, _input((1, 3, 96, 128)), PREPROCESSES[name]).shape == (3, 96, 128)


def test_a_letterbox_keeps_the_aspect_and_pads_with_gray(tmp_path, pillow):
    path = _save(pillow, tmp_path / "a.png", np.full((20, 40, 3), 255, np.uint8))
    got = load_image(path, _input(("N", 3, 64, 64)), PREPROCESSES["yolo"])
    assert np.all(got[:, 16:48] == 1)
    assert np.all(got[:, :16] == np.float32(114) / np.float32(255))
    assert np.all(got[:, 48:] == got[0, 0, 0])


def test_one_channel_is_gray(tmp_path, pillow):
    path = _save(pillow, tmp_path / "a.png", _pixels(8, 8, 1))
    assert load_image(path, _input(("N", 1, 8, 8)), PREPROCESSES["imagenet"]).shape == (1, 8, 8)


def test_a_folder_of_classes_is_read_in_batches_and_counted(tmp_path, pillow):
    for index in range(5):
        _save(pillow, tmp_path / f"class{index % 2}" / f"{index}.png", np.full((8, 8, 3), index, np.uint8))
    inputs = (_input(("N", 3, 8, 8), np.dtype(np.uint8)),)
    opened = open_data(tmp_path, inputs, batch_size=2, preprocess="none")
    assert opened.total == 5
    assert [feed["image"][:, 0, 0, 0].tolist() for feed in opened] == [[0, 2], [4, 1], [3]]


def test_a_folder_of_images_needs_to_know_the_preprocessing(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"")
    message = (
        "preprocess: expected one of imagenet, cifar, yolo, yolox, none or JSON .* for a folder of 1 image, got noth"
    )
    with pytest.raises(CalibrationError, match=message):
        list(read_feeds(tmp_path, (_input(("N", 3, 8, 8)),)))


def test_an_unknown_preprocessing_is_one_sentence_with_a_suggestion(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"")
    message = r"preprocess: expected one of imagenet, .*, got 'imagenett'; did you mean 'imagenet'\?"
    with pytest.raises(CalibrationError, match=message):
        open_data(tmp_path, (_input(("N", 3, 8, 8)),), preprocess="imagenett")


def test_images_for_two_inputs_are_one_sentence(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"")
    inputs = (_input(("N", 3, 8, 8)), ModelInput("mask", F32, ("N",)))
    with pytest.raises(
        CalibrationError, match=r"expected a model of one input for .* images, got inputs 'image', 'mask'"
    ):
        open_data(tmp_path, inputs, preprocess="none")


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (("N", 4), r"expected an input of shape \[N, C, H, W\] or \[N, H, W, C\] for images, got \[N, 4\]"),
        (("N", 4, 8, 8), r"expected an input of 1 or 3 channels for images, got \[N, 4, 8, 8\]"),
    ],
    ids=["rank 2", "4 channels"],
)
def test_an_input_that_is_no_image_is_one_sentence(tmp_path, shape, message):
    (tmp_path / "a.jpg").write_bytes(b"")
    with pytest.raises(CalibrationError, match=message):
        open_data(tmp_path, (_input(shape),), preprocess="none")


def test_a_broken_image_is_one_sentence(tmp_path, pillow):
    (tmp_path / "a.png").write_bytes(b"no image")
    with pytest.raises(CalibrationError, match=r"expected an image, got '.*a\.png'"):
        open_data(tmp_path, (_input(("N", 3, 8, 8)),), preprocess="none")


def test_without_pillow_the_sentence_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(DependencyError, match=r"expected an installed Pillow .*; pip install pillow"):
        open_data(tmp_path, (_input(("N", 3, 8, 8)),), preprocess="none")


def test_settings_change_a_recipe(tmp_path, pillow):
    pixels = _pixels(8, 16)
    path = _save(pillow, tmp_path / "a.png", pixels)
    row = find_preprocess({"fit": "letterbox", "size": 16, "order": "bgr", "pad": 7, "pad_at": "end", "std": [1, 2, 4]})
    got = load_image(path, _input(("N", 3, "H", "W")), row)
    np.testing.assert_array_equal(got[:, :8], (pixels / np.float32([1, 2, 4])).transpose(2, 0, 1)[::-1])
    np.testing.assert_array_equal(got[:, 8:, 0], np.float32([[7 / 4] * 8, [7 / 2] * 8, [7] * 8]))
    assert find_preprocess('{"recipe": "imagenet", "scale": 1}') == replace(PREPROCESSES["imagenet"], scale=1.0)
    (tmp_path / "p.json").write_text('{"recipe": "yolo", "size": [20, 30]}')
    assert find_preprocess(str(tmp_path / "p.json")).size == (20, 30)


def test_a_layout_that_the_shape_leaves_open_is_said(tmp_path, pillow):
    path = _save(pillow, tmp_path / "a.png", _pixels(3, 3))
    shape = _input(("N", 3, 3, 3))
    row = find_preprocess({"layout": "nhwc"})
    np.testing.assert_array_equal(load_image(path, shape, row), _pixels(3, 3))
    assert load_image(path, shape, find_preprocess({"dtype": "uint8"})).dtype == np.uint8


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"sacle": 1}, "got 'sacle'; did you mean 'scale'"),
        ({"std": 0}, "std: expected three numbers, got"),
        ({"mean": [1, 2]}, "mean: expected three numbers, got"),
        ({"scale": 0}, "scale: expected a number above 0, got 0"),
        ({"pad": 256}, "pad: expected an integer from 0 to 255, got 256"),
        ({"fit": "fill"}, "fit: expected crop or letterbox or stretch or keep, got 'fill'"),
        ({"size": [1, 2, 3]}, "size: expected a side or height and width in pixels, got"),
        ({"dtype": "int4"}, "dtype: expected the name of a dtype of numbers, got 'int4'"),
        ({"recipe": "yola"}, "got 'yola'; did you mean 'yolo'"),
        ("[1].json", "expected one of .* or JSON, got .*No such file"),
        ("{", "expected one of .* or JSON, got"),
        ("none.json", "expected one of .* or JSON, got .*No such file"),
    ],
)
def test_settings_that_mean_nothing_are_a_sentence(settings, sentence):
    with pytest.raises(CalibrationError, match=sentence):
        find_preprocess(settings)


def test_a_place_in_an_image_is_found_in_what_the_model_sees(tmp_path, pillow):
    pixels = np.zeros((30, 50, 3), np.uint8)
    pixels[14:18, 26:30] = 255
    path = _save(pillow, tmp_path / "a.png", pixels)
    for name in ("yolo", "yolox", "imagenet", "cifar"):
        row = replace(PREPROCESSES[name], size=200)
        got = load_image(path, _input(("N", 3, "H", "W")), row)[0]
        rows, columns = np.nonzero(got > got.min() + 0.9 * (got.max() - got.min()))
        across, down, left, top = row.placed(50, 30, (200, 200))
        assert abs(columns.mean() + 0.5 - (28 * across + left)) < across, name
        assert abs(rows.mean() + 0.5 - (16 * down + top)) < down, name


def test_images_are_shown_as_the_network_sees_them(tmp_path, pillow):
    pixels = _pixels(8, 8)
    _save(pillow, tmp_path / "images" / "a.png", pixels)
    wanted = (_input(("N", 3, 8, 8)),)
    settings = {"recipe": "cifar", "order": "bgr"}
    told = show_images(
        iter(open_data(tmp_path / "images", wanted, preprocess=settings)), wanted, tmp_path / "s", settings
    )
    assert told.startswith("1 images of 8 x 8 in ")
    np.testing.assert_array_equal(np.asarray(pillow.open(tmp_path / "s" / "0.png")), pixels)
    feed = {"image": np.float32([[[[-1.0, 3.0]]]])}
    show_images(iter([feed]), (_input(("N", 1, 1, 2)),), tmp_path / "t")
    np.testing.assert_array_equal(np.asarray(pillow.open(tmp_path / "t" / "0.png")), [[0, 255]])
    with pytest.raises(CalibrationError, match="show: expected an input of images"):
        show_images(iter([{"image": np.zeros((2, 4))}]), wanted, tmp_path / "t")
