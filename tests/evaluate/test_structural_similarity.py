"""SSIM beside its definition, written out place by place."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast.evaluate.scores import ssim


def by_definition(x, y, peak=255.0):
    """Equation 13 of the paper at every place of the window, with loops."""
    steps = np.arange(11) - 5
    window = np.exp(-(steps[:, None] ** 2 + steps[None] ** 2) / (2 * 1.5**2))
    window /= window.sum()
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    found = []
    for row in range(x.shape[0] - 10):
        for column in range(x.shape[1] - 10):
            a, b = (each[row : row + 11, column : column + 11] for each in (x, y))
            ma, mb = (window * a).sum(), (window * b).sum()
            va, vb = (window * (a - ma) ** 2).sum(), (window * (b - mb) ** 2).sum()
            covariance = (window * (a - ma) * (b - mb)).sum()
            found.append((2 * ma * mb + c1) * (2 * covariance + c2) / (ma**2 + mb**2 + c1) / (va + vb + c2))
    return np.mean(found)


@pytest.mark.parametrize("shape", [(11, 11), (16, 23)])
def test_it_is_the_definition(rng, shape):
    x = rng.integers(0, 256, shape).astype(np.uint8)
    y = np.clip(x + rng.normal(0, 20, shape), 0, 255).astype(np.uint8)
    # Sums of 121 products of at most 65,025 in float64 are exact to 1e-9; variances are differences of such.
    assert ssim(x, y) == pytest.approx(by_definition(x.astype(float), y.astype(float)), abs=1e-6)


def test_channels_are_averaged(rng):
    x, y = rng.integers(0, 256, (2, 20, 20, 3))
    assert ssim(x, y) == pytest.approx(np.mean([ssim(x[..., c], y[..., c]) for c in range(3)]), abs=1e-12)


@pytest.mark.parametrize("shapes", [((10, 20), (10, 20)), ((20, 20), (20, 21)), ((20,), (20,))])
def test_what_is_no_pair_of_images_is_refused(shapes):
    with pytest.raises(ValueError, match="ssim: expected images of one shape, 11 pixels a side or more, got"):
        ssim(*map(np.zeros, shapes))
