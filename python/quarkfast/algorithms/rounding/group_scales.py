"""Scales of groups of weights by the output of a layer: sought for the nearest codes, and fitted to given ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.rounding.descent import CoordinateDescent
from quarkfast.algorithms.rounding.problem import RoundingProblem, Solver

__all__ = ["fit_scales", "search_scales", "solve_with_scales"]

Values = NDArray[np.float64]

# A scale of less than the one that holds every weight cuts the largest off and brings the codes of all others closer.
# Weights of a normal distribution in 16 levels are served best by 0.65 to 0.9 of it in groups of 32 to 256.
_SHRINKS = np.arange(1.0, 0.58, -0.02)

# Of the mean of a form's diagonal: groups of codes that are alike, or of zeros, keep it from being singular.
_RIDGE = 1e-6

# Bits of a fitted scale: what is left of float64 beyond them differs between processors.
_SCALE_BITS = 16


def solve_with_scales(
    problem: RoundingProblem, solver: Solver, size: int, rounds: int
) -> tuple[NDArray[np.integer], Values]:
    """Returns codes of less error, and the scales of each weight that belong to them.

    Scales are sought for the nearest codes; the solver chooses codes; then scales and codes are each made better in
    turn. Rows that are no better than with the codes and the scales given keep these.

    Args:
        problem: The layer, with a scale for each weight.
        solver: What chooses the codes first.
        size: Weights along the sum that share a scale.
        rounds: How many times scales are fitted and codes descend.

    Example:
        >>> import numpy as np
        >>> from quarkfast.algorithms.rounding import CoordinateDescent
        >>> from quarkfast.reconstruction.set_aside import SetAside
        >>> form, weights = SetAside(np.eye(2)[None]), np.array([[[1.5, -3.0]]])
        >>> problem = RoundingProblem(
        ...     np.int8([[[2, -3]]]), np.array([[[2.0, -3.0]]]), weights, np.ones((1, 1, 2)), form, weights, -8, 7
        ... )
        >>> codes, scales = solve_with_scales(problem, CoordinateDescent(), 2, 1)
        >>> (codes * scales).round(3).tolist()
        [[[1.5, -3.0]]]
    """
    begun = search_scales(problem, size)
    current = begun.with_codes(solver.solve(begun))
    for _ in range(rounds):
        fitted = fit_scales(current, size)
        current = fitted.with_codes(CoordinateDescent().improve(fitted))
    better = (current.errors(current.codes) < problem.errors(problem.codes))[..., None]
    return np.where(better, current.codes, problem.codes), np.where(better, current.scales, problem.scales)


def search_scales(problem: RoundingProblem, size: int) -> RoundingProblem:
    """Returns the problem with the nearest codes under smaller scales, where these lessen a group's error.

    An error counts by the mean square of its input, the diagonal of ``G``: what errors of several inputs do to each
    other is left to the solver.

    Source:
        J. Lin et al., "AWQ: Activation-aware Weight Quantization", 2024, section 3.2, whose search over clipping
        thresholds minimizes the output error of each group; here by the diagonal of its form.
    """
    zeros = _zeros(problem)
    weight = problem.form.diagonals[:, None, :]
    best, scales, codes = np.full(problem.scales.shape, np.inf), problem.scales, problem.codes
    for shrink in _SHRINKS:
        steps = (problem.scales * shrink).astype(np.float32).astype(np.float64)
        found = np.clip(np.rint(problem.weights / steps) + zeros, problem.lowest, problem.highest)
        # The sum over the group of each weight, in its place.
        errors = weight * (problem.weights - (found - zeros) * steps) ** 2
        inputs = errors.shape[-1]
        firsts = np.arange(0, inputs, size)
        error = np.add.reduceat(errors, firsts, axis=-1).repeat(np.diff([*firsts, inputs]), axis=-1)
        better = error < best
        best = np.where(better, error, best)
        scales, codes = np.where(better, steps, scales), np.where(better, found, codes)
    return _rescaled(problem, codes.astype(problem.codes.dtype), scales, zeros)


def fit_scales(problem: RoundingProblem, size: int) -> RoundingProblem:
    """Returns the problem with the scales of least error for its codes, by least squares over the groups of a row.

    With ``C`` the codes of a row less the zero points, and ``C_a`` those of group `a` alone, the error is a form in the
    scales with ``A_ab = C_a G C_b^T`` and ``b_a = C_a T^T``. Where a scale would become zero or change its sign, the
    group keeps its own.
    """
    zeros = _zeros(problem)
    offsets = problem.codes - zeros
    scales = np.stack([
        _least_squares(own, gram, target, had, size)
        for own, gram, target, had in zip(offsets, problem.gram, problem.target, problem.scales, strict=True)
    ])  # fmt: skip
    return _rescaled(problem, problem.codes, scales, zeros)


def _least_squares(offsets: Values, gram: Values, target: Values, had: Values, size: int) -> Values:
    """Returns a scale for each weight of the rows of one group of a layer, with few enough bits for float32."""
    inputs = offsets.shape[1]
    cuts = list(pairwise([*range(0, inputs, size), inputs]))
    form, right = np.empty((len(offsets), len(cuts), len(cuts))), np.empty((len(offsets), len(cuts)))
    for a, (begin, end) in enumerate(cuts):
        through = offsets[:, begin:end] @ gram[begin:end]
        form[:, a] = np.add.reduceat(through * offsets, [first for first, _ in cuts], axis=1)
        right[:, a] = np.einsum("mk,mk->m", offsets[:, begin:end], target[:, begin:end])
    diagonal = np.einsum("mnn->mn", form)
    form = form + np.eye(len(cuts)) * (_RIDGE * diagonal.mean(axis=1) + np.finfo(np.float64).tiny)[:, None, None]
    mantissas, exponents = np.frexp(np.linalg.solve(form, right[..., None])[..., 0])
    found = np.ldexp(np.rint(np.ldexp(mantissas, _SCALE_BITS)), exponents - _SCALE_BITS)
    old = had[:, [begin for begin, _ in cuts]]
    kept = (diagonal > 0) & np.isfinite(found) & (found * old > 0)
    return np.where(kept, found, old).repeat([end - begin for begin, end in cuts], axis=1)


def _zeros(problem: RoundingProblem) -> Values:
    found: Values = np.rint(problem.codes - problem.decoded / problem.steps)
    return found


def _rescaled(problem: RoundingProblem, codes: NDArray[np.integer], scales: Values, zeros: Values) -> RoundingProblem:
    return replace(problem, codes=codes, scales=scales, decoded=(codes - zeros) * scales)
