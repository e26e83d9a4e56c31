"""Range estimation as fuzz targets: a histogram of random values, and what the reference allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quarkfast import kernels, reference
from quarkfast.kernels import Histogram, histogram

from .draw import Draw

# As in tests/kernels/test_range_estimation.py: roundings of sums over at most 4096 bins.
_TOLERANCE = 2.0**-32


class OneOf:
    """Equal to each of some results, where a search may end at any of several near ties."""

    def __init__(self, results: list[Any]) -> None:
        self.results = results

    def __eq__(self, other: object) -> bool:
        return other in self.results

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"one of {self.results!r}"


def _seen(h: Histogram) -> tuple[Any, int, float, float, int]:
    return h.counts, h.exponent, h.range.min, h.range.max, h.range.zero


def _histogram(d: Draw) -> Histogram:
    return histogram(d.floats((d.integer(0, 300),)))


def _codes(d: Draw) -> dict[str, Any]:
    qmin, qmax = d.pick(((-128, 127), (0, 255), (-8, 7), (-2, 1), (-127, 127)))
    return {"qmin": qmin, "qmax": qmax}


def _draw_percentile(d: Draw) -> dict[str, Any]:
    return {"h": _histogram(d), "percentile": d.pick((0, 50.0, 99.9, 100)), "symmetric": d.chance(0.5)}


def _draw_entropy(d: Draw) -> dict[str, Any]:
    rule = d.pick(("tensorrt", "onnxruntime"))
    return {"h": _histogram(d), "levels": d.pick((16, 64, 128)), "rule": rule, "bins": d.pick((128, 256))}


def _draw_least_error(d: Draw) -> dict[str, Any]:
    return {"h": _histogram(d), **_codes(d), "symmetric": d.chance(0.5)}


def _draw_power_of_two(d: Draw) -> dict[str, Any]:
    return _draw_least_error(d) | {"count": d.integer(1, 6)}


def _draw_error(d: Draw) -> dict[str, Any]:
    h, codes, symmetric = _histogram(d), _codes(d), d.chance(0.5)
    ends = (h.range.min, h.range.max) if h.range.finite else (0.0, 0.0)
    scale, zero = reference.qparams_from_range(ends, codes["qmin"], codes["qmax"], symmetric)
    return {"h": h, "scale": scale * d.pick((1.0, 0.5, 0.01)), "zero_point": zero, **codes}


def _draw_spread(d: Draw) -> dict[str, Any]:
    return {"h": _histogram(d), "root": d.pick((1, 3))}


def _percentile(h: Histogram, percentile: float, symmetric: bool) -> Any:
    return reference.percentile_range(_seen(h), float(percentile), symmetric)


def _entropy(h: Histogram, levels: int, rule: str, bins: int) -> Any:
    levels, bins = int(levels), int(bins)
    if rule == "onnxruntime":
        return reference.entropy_window_range(_seen(h), bins, levels)
    found = reference.entropy_divergences(_seen(h), levels)
    least = min(found.values(), default=0.0)
    ties = [bins for bins, value in found.items() if value <= least + _TOLERANCE]
    ends = [(max(-t, h.range.min), min(t, h.range.max)) for t in (each * 2.0**h.exponent for each in ties)]
    return OneOf([*ends, reference.entropy_range(_seen(h), levels)])


def _least_error(h: Histogram, qmin: int, qmax: int, symmetric: bool) -> Any:
    def error(_: Any, *arguments: Any) -> float:
        return kernels.quantization_error(h, *arguments)

    return reference.least_error_range(_seen(h), int(qmin), int(qmax), symmetric, error)


def _power_of_two(h: Histogram, qmin: int, qmax: int, symmetric: bool, count: int) -> Any:
    return reference.power_of_two_range(_seen(h), int(qmin), int(qmax), symmetric, int(count))


def _error(h: Histogram, scale: float, zero_point: int, qmin: int, qmax: int) -> Any:
    expected = reference.quantization_error(_seen(h), float(scale), int(zero_point), int(qmin), int(qmax))
    return pytest.approx(expected, rel=_TOLERANCE)


def _spread(h: Histogram, root: int) -> Any:
    if not h.range.finite:
        return (0.0, 0.0)
    top = float(np.abs([h.range.min, h.range.max]).max())
    return pytest.approx(reference.spread(_seen(h), int(root)), rel=1e-9, abs=1e-6 * max(top, np.cbrt(top)))


#: Name: function, how to draw a right call, what it should answer.
CALLS: dict[str, tuple[Callable[..., Any], Callable[[Draw], dict[str, Any]], Callable[..., Any]]] = {
    "percentile_range": (kernels.percentile_range, _draw_percentile, _percentile),
    "entropy_range": (kernels.entropy_range, _draw_entropy, _entropy),
    "least_error_range": (kernels.least_error_range, _draw_least_error, _least_error),
    "power_of_two_range": (kernels.power_of_two_range, _draw_power_of_two, _power_of_two),
    "quantization_error": (kernels.quantization_error, _draw_error, _error),
    "spread": (kernels.spread, _draw_spread, _spread),
}
