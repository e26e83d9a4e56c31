"""Scores beside plain NumPy, sample by sample, whatever the batches."""

from __future__ import annotations

import math

import numpy as np
import pytest

from quarkfast.evaluate.scores import Gathered, scores_by_name


def gather(reference, found, batch):
    gathered = Gathered("y")
    for start in range(0, len(reference), batch):
        gathered.add(reference[start : start + batch], found[start : start + batch])
    return gathered.scores()


@pytest.mark.parametrize("batch", [1, 3, 7])
def test_they_are_what_numpy_says_of_each_sample(rng, batch):
    x = rng.standard_normal((7, 10)).astype(np.float32)
    y = (x + 0.3 * rng.standard_normal(x.shape)).astype(np.float32)
    scores = gather(x, y, batch)
    a, b = x.astype(np.float64), y.astype(np.float64)
    cosines = [one @ two / np.linalg.norm(one) / np.linalg.norm(two) for one, two in zip(a, b, strict=True)]
    norms = [np.linalg.norm(one - two) for one, two in zip(a, b, strict=True)]
    psnr = [10 * np.log10(one.max() ** 2 / np.mean((one - two) ** 2)) for one, two in zip(a, b, strict=True)]
    top5 = [one.argmax() in np.argsort(-two)[:5] for one, two in zip(a, b, strict=True)]
    assert scores.samples == 7
    assert scores.sqnr == pytest.approx(10 * np.log10((a**2).sum() / ((a - b) ** 2).sum()), rel=1e-12)
    assert (scores.cosine_mean, scores.cosine_min) == pytest.approx((np.mean(cosines), min(cosines)), rel=1e-12)
    assert (scores.l2_mean, scores.l2_max) == pytest.approx((np.mean(norms), max(norms)), rel=1e-12)
    assert (scores.psnr_mean, scores.psnr_min) == pytest.approx((np.mean(psnr), min(psnr)), rel=1e-12)
    assert scores.top1 == pytest.approx(100 * np.mean(a.argmax(1) == b.argmax(1)))
    assert scores.top5 == pytest.approx(100 * np.mean(top5))
    assert (scores.ssim_mean, scores.not_finite) == (None, 0)


def test_equal_samples_have_no_noise():
    x = np.ones((2, 3, 4), np.float32)
    scores = gather(x, x, 2)
    assert (scores.sqnr, scores.psnr_min, scores.l2_max, scores.top1) == (math.inf, math.inf, 0, None)
    assert scores.to_dict()["sqnr"] is None


def test_a_sample_of_zeros_has_no_cosine():
    x = np.array([[0.0, 0.0], [1.0, 0.0]])
    scores = gather(x, x[::-1].copy(), 2)
    assert math.isnan(scores.cosine_mean)
    assert (scores.l2_mean, scores.top5) == (1, None)


def test_nan_and_infinity_are_counted_and_left_out():
    x = np.array([[1.0, np.nan, np.inf, 4.0]])
    y = np.array([[1.0, np.nan, 3.0, np.inf]])
    scores = gather(x, y, 1)
    assert scores.not_finite == 2  # two NaN at one place are the same
    assert (scores.l2_max, scores.sqnr) == (0, math.inf)


def test_images_have_a_structural_similarity_if_they_are_large_enough(rng):
    large, small = Gathered("large"), Gathered("small")
    large.add_image(*rng.integers(0, 256, (2, 12, 12, 3), np.uint8))
    small.add_image(*rng.integers(0, 256, (2, 10, 12, 3), np.uint8))
    found = scores_by_name({"large": large, "small": small, "none": Gathered("none")})
    assert [each.ssim_min is None for each in found] == [False, True]
