"""Quantization noise of outputs by sample and part, and what its decibels gain by a change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.config import POLICY, Policy
from quarkfast.evaluate.common_shape import in_one_shape
from quarkfast.wording import counted

__all__ = ["Gains", "OutputNoise", "Ratios", "SignalAndNoise", "powers_of"]

# Decibels at which the ratio of a sample ends on either side, so that no exact sample outweighs all others.
_MOST = 100.0


class SignalAndNoise(NamedTuple):
    """Sums of squares of one tensor on one sample.

    Attributes:
        signal: Of the finite numbers that are wanted.
        noise: Of what others differ by; infinite where these are of another number or not finite.
        is_finite: Whether all that is wanted is finite.
    """

    signal: float
    noise: float
    is_finite: bool = True


def powers_of(wanted: NDArray[Any], found: NDArray[Any]) -> SignalAndNoise:
    """Returns the power of what is wanted, and of what is found instead.

    Where one dimension differs, what one array has not is zero in it (`quarkfast.evaluate.common_shape`).

    Example:
        >>> powers_of(np.float32([3.0, 4.0]), np.float32([3.0, 2.0]))
        SignalAndNoise(signal=25.0, noise=4.0, is_finite=True)
    """
    wanted, found = in_one_shape(wanted, found)
    one, other = wanted.astype(np.float64).ravel(), found.ravel()
    finite = np.isfinite(one)
    is_finite, same = bool(finite.all()), one.size == other.size
    if not is_finite:
        one, other = one[finite], other[finite] if same else other
    signal = float(np.square(one).sum())
    if not same or not np.isfinite(other).all():
        return SignalAndNoise(signal, math.inf, is_finite)
    np.subtract(one, other, out=one)  # arrays may be large: in place
    return SignalAndNoise(signal, float(np.square(one, out=one).sum()), is_finite)


class Ratios(NamedTuple):
    """Ratios of signal to quantization noise, in dB.

    Attributes:
        outputs: Of the worst output, or the worst part of one; infinite where there is none of floats.
        logits: Of the worst of what Softmax and Sigmoid make outputs of, up to where a Sigmoid is flat; None where they
            make none.
        doubt: How much less than the worst of these other samples may have: standard errors of the one that is the
            least with them taken off. 0 for one sample, which says nothing about others.
    """

    outputs: float
    logits: float | None
    doubt: float

    @property
    def worst(self) -> float:
        """The worse of outputs and logits."""
        return self.outputs if self.logits is None else min(self.outputs, self.logits)


@dataclass(frozen=True, slots=True, eq=False)
class OutputNoise:
    """The power of a float model's outputs and of another model's noise, by sample and output part.

    Attributes:
        signal: Power of what is wanted, ``[samples, parts]``, float64.
        noise: Power of the noise, likewise; infinite where numbers are not finite or of another count.
        is_finite: Whether all that is wanted is finite, likewise.
        logits: Which parts are logits beside the outputs, ``[parts]``.
    """

    signal: NDArray[np.float64]
    noise: NDArray[np.float64]
    is_finite: NDArray[np.bool_]
    logits: NDArray[np.bool_]

    @classmethod
    def of(cls, samples: Sequence[Sequence[SignalAndNoise]], logits: Sequence[bool] = ()) -> OutputNoise:
        """Returns the noise of samples, each of which has the same parts."""
        count = len(samples[0]) if samples else 0
        table = np.array(samples, np.float64).reshape(len(samples), count, 3)
        kinds = np.array(logits or [False] * count, np.bool_)
        return cls(table[..., 0], table[..., 1], table[..., 2] > 0, kinds)

    def ratios(self) -> NDArray[np.float64]:
        """Returns the ratio of each sample in dB, the mean over parts, each between -100 and 100.

        Numbers that are wanted and not finite, and parts without signal and noise, are left out; a sample of which
        nothing is left is NaN.
        """
        known = (self.signal > 0) | (self.noise > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = 10 * np.log10(self.signal / self.noise)
        found = np.where(known, np.clip(ratios, -_MOST, _MOST), np.nan)
        return np.array([float(np.mean(row[~np.isnan(row)])) if not np.isnan(row).all() else np.nan for row in found])

    def over_samples(self, policy: Policy = POLICY) -> Ratios:
        """Returns the ratios of all samples together, of the worst output and the worst logits."""
        found = [self._ratio_of(part, policy.search_doubt) for part in range(self.logits.size)]
        outputs = [value for (value, _), behind in zip(found, self.logits, strict=True) if not behind]
        logits = [value for (value, _), behind in zip(found, self.logits, strict=True) if behind]
        worst = min((value for value, _ in found), default=math.inf)
        surely = min((value - doubt for value, doubt in found), default=math.inf)
        doubt = worst - surely if math.isfinite(worst) else 0.0
        return Ratios(min(outputs, default=math.inf), min(logits, default=None), doubt)

    def _ratio_of(self, part: int, errors: float) -> tuple[float, float]:
        """Returns the ratio of a part over all samples, and so many standard errors of it.

        That of a ratio ``r`` of means over ``n`` samples is ``sqrt(n / (n - 1) sum (noise - r power)^2) / sum power``,
        and that of ``10 log10 r`` is ``10 / ln 10`` times its part of ``r``.
        """
        power, noise = self.signal[:, part], self.noise[:, part]
        if not self.is_finite[:, part].all() or not np.isfinite(noise).all():
            return -math.inf, 0.0
        if not noise.any():
            return math.inf, 0.0
        if not power.any():
            return -math.inf, 0.0
        ratio, count = noise.sum() / power.sum(), len(power)
        value = float(-10 * np.log10(ratio))
        if count < 2:
            return value, 0.0
        error = np.sqrt(count / (count - 1) * np.square(noise - ratio * power).sum()) / power.sum()
        return value, errors * float(10 / np.log(10) * error / ratio)

    def beside_mean(self) -> NDArray[np.float64]:
        """Returns the noise of each sample beside the mean power of all, the mean over parts; nothing where none tells.

        Parts that are not finite somewhere, and those of nothing but zeros, do not count.
        """
        told = self.is_finite.all(axis=0) & (self.signal.sum(axis=0) > 0)
        if not told.any():
            return np.zeros(0)
        power = np.mean(self.signal, axis=0)
        found: NDArray[np.float64] = (self.noise[:, told] / power[told]).mean(axis=1)
        return found

    def by_part(self) -> NDArray[np.float64]:
        """Returns the noise of each part over all samples as a part of its power; those without power are left out."""
        power, noise = self.signal.sum(axis=0), self.noise.sum(axis=0)
        found: NDArray[np.float64] = noise[power > 0] / power[power > 0]
        return found


class Gains:
    """What the ratios of outputs on a holdout were and are, in dB; those that are not finite are left out.

    Example:
        >>> gains = Gains(np.array([20.0, 21.0]), np.array([23.0, 22.0]))
        >>> gains.mean, gains.are_losses(), str(gains)
        (2.0, False, 'on 2 samples held apart outputs have 22.5 dB instead of 20.5 dB in the mean')
        >>> gains.better(gain=0.5, errors=1.0), gains.better(gain=1.5, errors=1.0)
        (True, False)
    """

    def __init__(self, before: NDArray[np.float64], after: NDArray[np.float64]) -> None:
        """Takes one ratio of each sample, without the change and with it."""
        known = np.isfinite(before) & np.isfinite(after)
        self._before, self._after = before[known], after[known]
        self._gains = self._after - self._before

    @classmethod
    def of_noise(cls, before: NDArray[np.float64], after: NDArray[np.float64]) -> Gains:
        """Returns what samples gain by less noise; one without any is left out.

        Decibels, since one sample of a classifier that is unsure may have most of the noise.

        Example:
            >>> found = Gains.of_noise(np.array([1.0, 10.0, 0.0]), np.array([0.1, 10.0, 0.0]))
            >>> found.size, found.mean
            (2, 5.0)
        """
        known = np.isfinite(before) & np.isfinite(after) & (before > 0) & (after > 0)
        return cls(-10 * np.log10(before[known]), -10 * np.log10(after[known]))

    @property
    def size(self) -> int:
        """Number of samples."""
        return self._gains.size

    @property
    def mean(self) -> float:
        """The mean gain in dB."""
        return float(self._gains.mean()) if self._gains.size else 0.0

    @property
    def error(self) -> float:
        """The standard error of that; 0 for one sample, which says nothing of others."""
        return float(np.std(self._gains, ddof=1)) / math.sqrt(self.size) if self.size > 1 else 0.0

    @property
    def after(self) -> float:
        """The mean ratio in dB with the change."""
        return float(self._after.mean()) if self._after.size else 0.0

    def any(self) -> bool:
        """Whether any sample has another ratio."""
        return bool(self._gains.any())

    def better(self, gain: float = 0.0, errors: float = 0.0) -> bool:
        """Whether the mean is above `gain` in dB by more than so many of its standard errors."""
        return self.mean - gain > errors * self.error

    def worse(self, errors: float = 0.0) -> bool:
        """Whether the mean is below zero by more than so many of its standard errors."""
        return self.mean < -errors * self.error

    def are_losses(self, policy: Policy = POLICY) -> bool:
        """Whether the mean is below zero by more than its standard error, or of few by more than chance."""
        return self.worse(errors=1.0) or (self.size < policy.apart_few and self.mean < -policy.apart_loss)

    def __str__(self) -> str:
        """Returns both means in words."""
        had = float(self._before.mean()) if self._before.size else 0.0
        apart = counted(self.size, "sample held apart")
        return f"on {apart} outputs have {self.after:.1f} dB instead of {had:.1f} dB in the mean"
