from __future__ import annotations

import numpy as np
import pytest

from quarkfast.evaluate import agreement, cosine, spearman, sqnr, top1


def test_top1_counts_rows_whose_largest_logit_is_the_labels():
    assert top1(np.eye(4), [0, 1, 2, 0]) == 75.0


def test_top1_refuses_labels_of_another_length():
    with pytest.raises(ValueError, match=r"top1: expected logits \[samples, classes\] and labels \[samples\]"):
        top1(np.eye(4), [0, 1])


def test_agreement_compares_decisions_not_values():
    assert agreement(np.eye(3), 5 * np.eye(3) + 1) == 100.0


def test_equal_arrays_have_an_infinite_ratio():
    assert sqnr([1.0, 2.0], [1.0, 2.0]) == float("inf")
    assert sqnr([0.0], [1.0]) == float("-inf")


def test_half_the_amplitude_as_noise_is_six_decibels():
    assert sqnr([2.0], [1.0]) == pytest.approx(20 * np.log10(2))


def test_cosine_ignores_length():
    assert cosine([1.0, 2.0], [2.0, 4.0]) == pytest.approx(1.0)
    assert cosine([0.0, 0.0], [1.0, 1.0]) == 0.0


def test_rank_correlation_ignores_monotone_change():
    rng = np.random.default_rng(1)
    x = rng.normal(size=50)
    assert spearman(x, np.exp(x)) == pytest.approx(1.0)
    assert spearman(x, -x) == pytest.approx(-1.0)


def test_ties_share_the_mean_of_their_ranks():
    # Ranks 1, 2.5, 2.5, 4 against 1, 3, 2, 4.
    assert spearman([1, 2, 2, 3], [1, 3, 2, 4]) == pytest.approx(np.corrcoef([1, 2.5, 2.5, 4], [1, 3, 2, 4])[0, 1])


def test_a_constant_has_no_rank_correlation():
    assert np.isnan(spearman([1, 1, 1], [1, 2, 3]))


@pytest.mark.parametrize("metric", [agreement, sqnr, cosine, spearman])
def test_arrays_of_different_shapes_are_refused(metric):
    with pytest.raises(ValueError, match=r"expected arrays of one shape, got \(2,\) and \(3,\)"):
        metric([1.0, 2.0], [1.0, 2.0, 3.0])
