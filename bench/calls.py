"""What a call costs where there is next to nothing to compute: ``python -m bench.calls``.

Every function runs on 16 elements, one thread, with preallocated output; the least of many rounds of 20 calls. Beside
it stands the native function alone, called by position. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import quarkfast
from bench.race import timed
from quarkfast import _core

ELEMENTS = 16
CALLS = 20


def runs() -> dict[str, tuple[Callable[[], object], Callable[[], object] | None]]:
    """The public function and the native one, for each row."""
    x = np.linspace(-1, 1, ELEMENTS, dtype=np.float32)
    y, half, codes = np.empty_like(x), np.empty(ELEMENTS, np.float16), np.zeros(ELEMENTS, np.int8)
    scale, zero, dims = np.array(0.02, np.float32), np.array(3, np.int8), (1, ELEMENTS, 1)
    i8, f16 = codes.dtype, half.dtype
    return {
        "quantize_linear": (
            lambda: quarkfast.quantize_linear(x, scale, zero, dtype=i8, out=codes),
            lambda: _core.quantize_linear_f32_i8(x, codes, scale, zero, 1, 0, None, None),
        ),
        "dequantize_linear": (
            lambda: quarkfast.dequantize_linear(codes, scale, zero, out=y),
            lambda: _core.dequantize_linear_i8_f32(codes, y, scale, zero, 1, 0),
        ),
        "cast": (lambda: quarkfast.cast(x, f16, out=half), lambda: _core.cast_f32_f16(x, half)),
        "round_trip": (lambda: quarkfast.round_trip(x, f16, out=y), lambda: _core.round_trip_f32_f16(x, y)),
        "fake_quantize_bfp": (lambda: quarkfast.fake_quantize_bfp(x, out=y), None),
        "fake_quantize_mx": (lambda: quarkfast.fake_quantize_mx(x, "fp8_e4m3", out=y), None),
        "reduce_range": (lambda: quarkfast.reduce_range(x), lambda: _core.reduce_range_f32(x)),
        "absmax": (lambda: quarkfast.absmax(x), lambda: _core.reduce_absmax_f32(x, dims)),
        "moments": (lambda: quarkfast.moments(x), lambda: _core.sum_moments_f32(x)),
        "histogram": (lambda: quarkfast.histogram(x), lambda: _core.count_histogram_f32(x)),
        "numpy.add": (lambda: np.add(x, x, out=y), None),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.calls", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="time for the whole table")
    seconds = parser.parse_args().seconds
    quarkfast.set_num_threads(1)
    given = runs()
    best = {name: [np.inf, np.inf] for name in given}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, pair in given.items():
            for i, run in enumerate(pair):
                if run is not None:
                    best[name][i] = min(best[name][i], timed(run, CALLS))
    print("| function | us a call | of them native |", "| :-- | --: | --: |", sep="\n")
    for name, (public, native) in best.items():
        print(f"| {name} | {public * 1e6:.1f} | {f'{native * 1e6:.1f}' if np.isfinite(native) else ''} |")


if __name__ == "__main__":
    main()
