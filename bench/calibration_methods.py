"""Microseconds a tensor for each method that derives a range from a histogram: ``python -m bench.calibration_methods``.

The histograms are those of 2^20 normally distributed values and of the same after a ReLU. A method's result is compared
with that of every of the instruction sets before it is timed. Least of the rounds, in which all take turns. Prints
a Markdown table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import quarkfast
from bench.race import timed
from quarkfast import kernels

METHODS: dict[str, Callable[[Any], Any]] = {
    "percentile 99.99, symmetric": lambda h: kernels.percentile_range(h, 99.99),
    "percentile 99.99, two-sided": lambda h: kernels.percentile_range(h, 99.99, symmetric=False),
    "entropy, TensorRT's rule": lambda h: kernels.entropy_range(h),
    "entropy, onnxruntime's rule": lambda h: kernels.entropy_range(h, rule="onnxruntime"),
    "least squared error, symmetric int8": lambda h: kernels.least_error_range(h, -128, 127),
    "least squared error, int8": lambda h: kernels.least_error_range(h, -128, 127, symmetric=False),
    "power of two of least squared error, int8": lambda h: kernels.power_of_two_range(h, -128, 127),
    "expected squared error of one scale, int8": lambda h: kernels.quantization_error(h, 0.03, 0, -128, 127),
    "mean and standard deviation": lambda h: kernels.spread(h),
}


def histograms() -> dict[str, Any]:
    """The histograms by name."""
    x = np.random.default_rng(0).standard_normal(1 << 20, dtype=np.float32)
    return {"normal": quarkfast.histogram(x), "ReLU": quarkfast.histogram(np.maximum(x, 0))}


def check(method: Callable[[Any], Any], h: Any) -> None:
    """Raise where instruction sets disagree."""
    results = set()
    for isa in quarkfast.available_isas():
        with quarkfast.use_isa(isa):
            results.add(method(h))
    if len(results) != 1:
        raise ValueError(f"expected one result on every instruction set, got {results}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.calibration_methods", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="time for the whole table")
    seconds = parser.parse_args().seconds
    given = histograms()
    runs = {(name, kind): (method, h) for name, method in METHODS.items() for kind, h in given.items()}
    for method, h in runs.values():
        check(method, h)
    best = dict.fromkeys(runs, np.inf)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for key, (method, h) in runs.items():
            best[key] = min(best[key], timed(lambda method=method, h=h: method(h), 1))
    print(f"| method | {' us | '.join(given)} us |", f"| :-- |{' --: |' * len(given)}", sep="\n")
    for name in METHODS:
        print(f"| {name} |", " | ".join(f"{best[name, kind] * 1e6:,.0f}" for kind in given), "|")


if __name__ == "__main__":
    main()
