"""Scales that are powers of two, for targets that multiply by shifting."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast.kernels import fake_quantize_linear
from quarkfast.qparams.ranges import QParams

__all__ = [
    "LARGEST_MULTIPLIER",
    "PowerOfTwoRule",
    "dyadic_scale",
    "power_of_two",
    "power_of_two_candidates",
    "search_power_of_two",
]

PowerOfTwoRule = Literal["nearest", "ceil"]

# Exponents of the powers of two that each scale dtype holds; float32 stops at the smallest normal number.
_EXPONENTS = {np.dtype(np.float32): (-126, 127), np.dtype(np.float16): (-24, 15)}


def power_of_two(params: QParams, rule: PowerOfTwoRule = "nearest") -> QParams:
    """Replace the scale by a power of two; the zero point stays.

    Args:
        params: From :func:`from_range`.
        rule: ``"nearest"`` rounds the exponent to the nearest integer, so the scale may shrink by up to the square root
            of two and the ends of the range may saturate. ``"ceil"`` takes the smallest power of two that is not below
            the scale: nothing inside the range saturates.

    Raises:
        ValueError: unknown rule, or a float16 scale above 32768, the largest power of two there.

    Source:
        Quark's ``PowerOfTwoMethod.NonOverflow`` is ``"nearest"`` (and does overflow, whence the other rule).

    Example:
        >>> from quarkfast.qparams import from_range
        >>> p = from_range(-2.8, 2.8, "int8", symmetric=True)
        >>> [float(power_of_two(p, rule).scale) for rule in ("nearest", "ceil")]
        [0.015625, 0.03125]
    """
    if rule not in ("nearest", "ceil"):
        raise ValueError(f"power_of_two: rule: expected 'nearest' or 'ceil', got {rule!r}")
    if params.scale.dtype == np.float16 and (params.scale > 32768).any():
        raise ValueError(
            f"power_of_two: scale: expected at most 32768 for float16, got {params.scale.max()}; use float32 scales"
        )
    fraction, exponent = np.frexp(params.scale.astype(np.float64))  # scale = fraction * 2^exponent, 0.5 <= fraction < 1
    # -log2(scale) rounds to -exponent where the fraction is above sqrt(1/2); no fraction is exactly there.
    threshold = np.sqrt(0.5) if rule == "nearest" else 0.5
    return params.with_scale(_exp2(exponent - (fraction <= threshold), params.scale.dtype))


def power_of_two_candidates(params: QParams, count: int = 5) -> list[QParams]:
    """Return the scales that a minimum-error search compares: twice the nearest power of two, itself, a half, ...

    Example:
        >>> from quarkfast.qparams import from_range
        >>> p = from_range(-1.0, 1.0, "int8", symmetric=True)
        >>> [float(c.scale) for c in power_of_two_candidates(p)]
        [0.015625, 0.0078125, 0.00390625, 0.001953125, 0.0009765625]
    """
    base = power_of_two(params)
    exponent = np.frexp(base.scale.astype(np.float64))[1] - 1
    return [base.with_scale(_exp2(exponent + 1 - i, base.scale.dtype)) for i in range(count)]


def search_power_of_two(x: ArrayLike, params: QParams, *, axis: int = 1) -> QParams:
    """Return the candidate with the smallest sum of squared errors over x, channel by channel.

    Args:
        x: float32 values, finite, any shape.
        params: From :func:`from_range`, per tensor or per channel along ``axis``; its zero point stays.
        axis: Axis of channels.

    Returns:
        The first minimum among :func:`power_of_two_candidates`; where x is all zero and every candidate is exact, the
        nearest power of two.

    Raises:
        TypeError: x is not float32.
        ValueError: x holds NaN or infinity, or does not fit ``params``.

    Source:
        Quark's ``PowerOfTwoMethod.MinMSE`` over the same five candidates.

    Example:
        >>> from quarkfast.qparams import from_range
        >>> x = np.float32([0.1, -0.2, 0.3, 1.05])
        >>> float(search_power_of_two(x, from_range(-1.05, 1.05, "int8", bits=3, symmetric=True)).scale)
        0.5
    """
    values = np.asarray(x)
    candidates = power_of_two_candidates(params)
    errors = [_squared_error(values, each, axis) for each in candidates]
    if not all(np.isfinite(e).all() for e in errors):
        raise ValueError("search_power_of_two: x: expected finite values, got NaN or infinity")
    best = np.where(_all_zero(values, params, axis), 1, np.argmin(errors, axis=0))
    return params.with_scale(np.choose(best, [each.scale for each in candidates]))


def _exp2(exponent: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return powers of two, their exponents limited to what the dtype holds."""
    powers: NDArray[np.float64] = np.ldexp(1.0, np.clip(exponent, *_EXPONENTS[dtype]))
    return powers.astype(dtype)


def _other_axes(x: NDArray[Any], params: QParams, axis: int) -> tuple[int, ...] | None:
    return None if params.scale.size == 1 else tuple(i for i in range(x.ndim) if i != axis % x.ndim)


def _squared_error(x: NDArray[Any], params: QParams, axis: int) -> NDArray[np.float64]:
    fake = fake_quantize_linear(
        x, params.scale.astype(np.float32), params.zero_point, dtype=params.qtype.name, axis=axis,
        qmin=params.qmin, qmax=params.qmax,
    )  # fmt: skip
    with np.errstate(invalid="ignore"):
        squares = np.square(np.subtract(x, fake, dtype=np.float64))
    return np.asarray(squares.sum(axis=_other_axes(x, params, axis))).reshape(params.scale.shape)


def _all_zero(x: NDArray[Any], params: QParams, axis: int) -> NDArray[np.bool_]:
    return np.asarray(~(x != 0).any(axis=_other_axes(x, params, axis))).reshape(params.scale.shape)


LARGEST_MULTIPLIER = 32767
"""The largest number of 16 bits."""


def dyadic_scale(params: QParams, max_shift: int = 16) -> tuple[QParams, NDArray[np.int64], NDArray[np.int64]]:
    """Replace the scale by the nearest ``multiplier / 2**shift`` with a positive 16-bit multiplier.

    Args:
        params: From :func:`from_range`.
        max_shift: Largest shift, 0 to 62.

    Returns:
        Parameters with the new scale, the multipliers (1 to 32767) and the shifts; among equally near scales the
        smallest shift. A scale below the smallest one becomes ``2**-max_shift``.

    Raises:
        TypeError: float16 scales, which cannot hold 15-bit multipliers.
        ValueError: a scale above 32767, or ``max_shift`` outside its range.

    Source:
        Quark's ``Int16Scale`` (shifts 0 to 16), which gives 2**-14 instead where its multiplier would be 0.

    Example:
        >>> from quarkfast.qparams import from_range
        >>> p, multiplier, shift = dyadic_scale(from_range(0.0, 0.3 * 255, "uint8"))
        >>> float(p.scale), int(multiplier), int(shift)
        (0.3000030517578125, 19661, 16)
    """
    if not 0 <= max_shift <= 62:
        raise ValueError(f"dyadic_scale: max_shift: expected 0 to 62, got {max_shift}")
    if params.scale.dtype != np.float32:
        raise TypeError(f"dyadic_scale: scale: expected float32, got {params.scale.dtype}")
    scale = params.scale.astype(np.float64)
    if (scale > LARGEST_MULTIPLIER).any():
        raise ValueError(f"dyadic_scale: scale: expected at most {LARGEST_MULTIPLIER}, got {scale.max()}")
    best = np.full(scale.shape, np.inf)
    multiplier, shift = np.ones(scale.shape, np.int64), np.full(scale.shape, max_shift, np.int64)
    for n in range(max_shift + 1):
        for candidate in (np.floor(np.ldexp(scale, n)), np.ceil(np.ldexp(scale, n))):
            distance = np.abs(np.ldexp(candidate, -n) - scale)
            better = (candidate >= 1) & (candidate <= LARGEST_MULTIPLIER) & (distance < best)
            best = np.where(better, distance, best)
            multiplier = np.where(better, candidate, multiplier).astype(np.int64)
            shift = np.where(better, n, shift)
    return params.with_scale(np.ldexp(multiplier.astype(np.float64), -shift)), multiplier, shift
