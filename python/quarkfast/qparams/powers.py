"""Scales that are powers of two, for targets that multiply by shifting."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast.kernels import fake_quantize_linear
from quarkfast.qparams.ranges import QParams

__all__ = ["PowerOfTwoRule", "power_of_two", "power_of_two_candidates", "search_power_of_two"]

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
