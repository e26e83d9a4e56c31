"""Two folders of results."""

from __future__ import annotations

import math

import numpy as np
import pytest

import quarkfast


@pytest.fixture
def folders(tmp_path):
    found = tmp_path / "float", tmp_path / "int8"
    for folder in found:
        folder.mkdir()
    return found


def test_arrays_are_one_sample_a_file(folders, rng):
    for index in range(3):
        x = rng.standard_normal((1, 10)).astype(np.float32)
        for folder, array in zip(folders, (x, x + np.float32(0.1)), strict=True):
            np.save(folder / f"{index}.npy", array)
    np.save(folders[0] / "alone.npy", np.zeros(1))
    (folders[1] / "notes.txt").write_text("no result")
    found = quarkfast.evaluate_folders(*folders)
    (scores,) = found.scores
    assert (scores.output, scores.samples, found.not_compared) == ("arrays", 3, ("alone.npy",))
    assert scores.l2_mean == pytest.approx(
        math.sqrt(10) * 0.1, rel=1e-5
    )  # float32 holds 0.1 to 1.5e-8, x + 0.1 to 1e-7
    assert scores.top1 == 100


def test_archives_have_a_row_for_each_name(folders):
    for folder, offset in zip(folders, (0, 1), strict=True):
        np.savez(folder / "a.npz", boxes=np.full((2, 4), offset), scores=np.ones(3))
    boxes, scores = quarkfast.evaluate_folders(*folders).scores
    assert (boxes.output, boxes.l2_max, scores.output, scores.l2_max) == ("boxes", math.sqrt(8), "scores", 0)


@pytest.mark.parametrize(("suffix", "mode"), [("png", "RGB"), ("png", "L"), ("jpg", "RGB"), ("png", "RGBA")])
def test_images_are_their_pixels(folders, rng, suffix, mode):
    image = pytest.importorskip("PIL.Image")
    channels = {"L": (), "RGB": (3,), "RGBA": (4,)}[mode]
    pixels = rng.integers(0, 256, (24, 20, *channels), np.uint8)
    for folder, values in zip(folders, (pixels, pixels // 2), strict=True):
        image.fromarray(values, mode if mode == "RGBA" else None).save(folder / f"0.{suffix}")
    read = [np.asarray(image.open(folder / f"0.{suffix}").convert("RGB")).astype(float) for folder in folders]
    (scores,) = quarkfast.evaluate_folders(*folders).scores
    assert scores.output == "images"
    assert scores.l2_max == pytest.approx(np.linalg.norm(read[0] - read[1]))
    noise = np.mean((read[0] - read[1]) ** 2)
    assert scores.psnr_min == pytest.approx(10 * np.log10(read[0].max() ** 2 / noise))
    assert 0 < scores.ssim_min < 1


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        ({}, {}, "expected files of the same names in both folders, got none"),
        (
            {"0.npy": np.zeros(3)},
            {"0.npy": np.zeros(4)},
            r"0.npy: arrays: expected the shape of the reference \[3\], got \[4\]",
        ),
        ({"0.npy": np.array(["a"])}, {"0.npy": np.array(["a"])}, "0.npy: expected numbers, got <U1 and <U1"),
        ({"0.npy": b"none"}, {"0.npy": np.zeros(3)}, "expected an .npz or .npy file"),
        ({"0.png": b"none"}, {"0.png": b"none"}, "expected an image of 8 bits a channel, got another file"),
    ],
)
def test_bad_folders_get_a_sentence(folders, first, second, sentence):
    for folder, files in zip(folders, (first, second), strict=True):
        for name, content in files.items():
            (folder / name).write_bytes(content) if isinstance(content, bytes) else np.save(folder / name, content)
    with pytest.raises(quarkfast.CalibrationError, match=sentence):
        quarkfast.evaluate_folders(*folders)


def test_images_of_more_than_8_bits_are_refused(folders):
    image = pytest.importorskip("PIL.Image")
    for folder in folders:
        image.fromarray(np.full((12, 12), 40000, np.uint16)).save(folder / "0.png")
    with pytest.raises(quarkfast.CalibrationError, match="more than 8 bits a channel"):
        quarkfast.evaluate_folders(*folders)


def test_other_arrays_in_an_archive_are_refused(folders):
    np.savez(folders[0] / "a.npz", x=np.ones(2))
    np.savez(folders[1] / "a.npz", y=np.ones(2))
    with pytest.raises(
        quarkfast.CalibrationError, match=r"a.npz: expected the same arrays in both files, got 'x', 'y'"
    ):
        quarkfast.evaluate_folders(*folders)


def test_a_folder_that_is_missing_is_named(folders):
    with pytest.raises(
        quarkfast.CalibrationError, match=r"expected a folder of results, got no such folder at '.*none'"
    ):
        quarkfast.evaluate_folders(folders[0], folders[0].parent / "none")
