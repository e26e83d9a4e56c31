"""Quark's evaluate tool: its arguments and the figures that it prints."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from quarkfast.compat.quark.onnx.tools.folder_figures import compare_folders

# What Quark 0.13 prints (OpenCV 5.0, torch 2.13) for the folders that `fill` writes.
PRINTED = {
    "npy": """Mean cos similarity: 0.9991456270217896
Min cos similarity: 0.9990799427032471
Mean l2 distance: 0.580337643623352
Max l2 distance: 0.5808634757995605
Mean psnr: 33.89863586425781
Min psnr: 33.796348571777344
Mean ssim: 0.9999325275421143
Min ssim: 0.9999321699142456""",
    "png": """Mean cos similarity: 0.9996663331985474
Min cos similarity: 0.9996662139892578
Mean l2 distance: 141.3700714111328
Max l2 distance: 141.40367126464844
Mean psnr: 36.535274505615234
Min psnr: 36.53321075439453
Mean ssim: 0.9995987415313721
Min ssim: 0.999562680721283""",
}


def fill(folder, kind):
    """Writes results that are the same everywhere: no generator, integers of a fixed sequence."""
    folders = folder / "float", folder / "int8"
    for each in folders:
        each.mkdir()
    for index in range(2):
        base = (np.arange(24 * 20 * 3) * (7 + index) % 251).reshape(24, 20, 3).astype(np.uint8)
        other = np.clip(base.astype(int) + (np.arange(base.size) * 5 % 13 - 6).reshape(base.shape), 0, 255).astype(
            np.uint8
        )
        for where, pixels in zip(folders, (base, other), strict=True):
            if kind == "npy":
                np.save(where / f"{index}.npy", pixels.reshape(1, -1)[:, :100].astype(np.float32) / 64 - 1)
            else:
                pytest.importorskip("PIL.Image").fromarray(pixels).save(where / f"{index}.png")
    return [str(each) for each in folders]


def figures(text):
    return {line.rpartition(": ")[0]: float(line.rpartition(": ")[2]) for line in text.splitlines()}


@pytest.mark.parametrize("kind", ["npy", "png"])
@pytest.mark.parametrize("named", [True, False])
def test_it_prints_what_quark_prints(tmp_path, capsys, kind, named):
    one, other = fill(tmp_path, kind)
    words = ["--baseline_results_folder", one, "--quantized_results_folder", other] if named else [one, other]
    assert compare_folders(words) == 0
    found, known = figures(capsys.readouterr().out), figures(PRINTED[kind])
    assert found.keys() == known.keys()
    for name, value in known.items():
        assert found[name] == pytest.approx(value, rel=1e-6), name


def test_equal_results_have_quarks_ceiling(tmp_path, capsys):
    one, _ = fill(tmp_path, "npy")
    assert compare_folders([one, one]) == 0
    found = figures(capsys.readouterr().out)
    assert found["Max l2 distance"] == 0
    assert found["Min psnr"] > 100
    assert found["Min ssim"] == pytest.approx(1, rel=1e-6)


def test_arrays_that_are_no_images_have_no_similarity(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "0.npy", np.ones((1, 3, 4, 4), np.float32))
    assert compare_folders([str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert set(figures(capsys.readouterr().out)) == {
        *("Mean cos similarity", "Min cos similarity", "Mean l2 distance", "Max l2 distance", "Mean psnr", "Min psnr"),
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda one, other: other.joinpath("0.npy").unlink(),
            r"0\.npy: expected a file of that name in both folders, got none in ",
        ),
        (
            lambda one, other: np.save(other / "0.npy", np.ones((2, 5))),
            r"0\.npy: expected the shape \[1, 100\], got \[2, 5\]",
        ),
        (
            lambda one, other: [each.unlink() for each in one.iterdir()],
            r"expected \.npy, \.png or \.jpg files, got none",
        ),
    ],
)
def test_what_cannot_be_compared_is_a_sentence(tmp_path, capsys, change, said):
    one, other = fill(tmp_path, "npy")
    change(tmp_path / "float", tmp_path / "int8")
    assert compare_folders([one, other]) == 1
    assert re.match(rf"evaluate: error: {said}", capsys.readouterr().err)


def test_a_missing_folder_and_a_missing_word_are_told(tmp_path, capsys):
    one, _ = fill(tmp_path, "npy")
    assert compare_folders([one, str(tmp_path / "none")]) == 1
    assert "expected a folder of results, got no such folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        compare_folders([one])
    assert "expected two folders, got 1" in capsys.readouterr().err


def test_it_is_a_command(tmp_path):
    words = [sys.executable, "-m", "quarkfast.compat.quark.onnx.tools.evaluate", *fill(tmp_path, "npy")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert figures(done.stdout).keys() == figures(PRINTED["npy"]).keys()
