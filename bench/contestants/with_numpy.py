"""NumPy: the expressions that a careful user writes, every step into a preallocated array."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from bench.operations import OPERATIONS
from bench.workload import Entry, Workload

NAME = "numpy"
EXACT = True
HAS_THREADS = False


def _plain_scales(work: Workload) -> tuple[Any, Any] | None:
    """Scale and zero point that broadcast against x; None for blocks and for 32-bit types, which need float64."""
    if work.row.bits > 16 or work.block_size:
        return None
    zero_point = np.asarray(work.zero_point, np.float32)
    if work.task.layout == "first axis":
        return work.scale[:, None], zero_point[:, None]
    return work.scale, zero_point


def _quantize_steps(work: Workload, y: Any, scale: Any, zero_point: Any) -> None:
    np.divide(work.x, scale, out=y)
    np.rint(y, out=y)
    np.clip(y, work.row.qmin - zero_point, work.row.qmax - zero_point, out=y)


def quantize_linear(work: Workload, threads: int) -> Entry | None:
    scales = _plain_scales(work)
    if scales is None:
        return None
    y, out = np.empty(work.shape, np.float32), np.empty(work.shape, work.row.dtype)

    def run() -> None:
        _quantize_steps(work, y, *scales)
        np.add(y, scales[1], out=y)
        np.copyto(out, y, casting="unsafe")

    return Entry(run, lambda: out)


def dequantize_linear(work: Workload, threads: int) -> Entry | None:
    scales = _plain_scales(work)
    if scales is None:
        return None
    q, y = OPERATIONS["dequantize_linear"].input(work), np.empty(work.shape, np.float32)

    def run() -> None:
        np.subtract(q, scales[1], out=y)
        np.multiply(y, scales[0], out=y)

    return Entry(run, lambda: y)


def fake_quantize_linear(work: Workload, threads: int) -> Entry | None:
    scales = _plain_scales(work)
    if scales is None:
        return None
    y = np.empty(work.shape, np.float32)

    def run() -> None:
        _quantize_steps(work, y, *scales)
        np.multiply(y, scales[0], out=y)
        np.add(y, 0.0, out=y)  # minus zero becomes zero, as codes cannot carry its sign

    return Entry(run, lambda: y)


def pack_codes(work: Workload, threads: int) -> Entry:
    q, out = OPERATIONS["pack_codes"].input(work).reshape(-1).view(np.uint8), np.empty(work.x.size // 2, np.uint8)
    low = np.empty_like(out)

    def run() -> None:
        np.left_shift(q[1::2], 4, out=out)
        np.bitwise_and(q[::2], 15, out=low)
        np.bitwise_or(out, low, out=out)

    return Entry(run, lambda: out)


def unpack_codes(work: Workload, threads: int) -> Entry:
    packed = OPERATIONS["unpack_codes"].input(work)
    out = np.empty(work.x.size, np.uint8)

    def run() -> None:
        np.bitwise_and(packed, 15, out=out[::2])
        np.right_shift(packed, 4, out=out[1::2])

    return Entry(run, lambda: out.view(work.row.dtype))


def _told(call: Any) -> Any:
    """Set up a statistic that ``call(x, task)`` makes."""

    def setup(work: Workload, threads: int) -> Entry:
        found: list[Any] = []

        def run() -> None:
            found[:] = [call(work)]

        return Entry(run, lambda: np.asarray(found[0]))

    return setup


def _histogram(work: Workload) -> Any:
    edge = histogram_edge(work)
    return np.histogram(work.x, bins=BINS, range=(-edge, edge))[0].astype(np.uint64)


def _absmax(work: Workload) -> Any:
    other = {"first axis": 1, "last axis": 0}.get(work.task.layout)
    return np.maximum(work.x.max(axis=other), -work.x.min(axis=other))


def _extremes(work: Workload) -> Any:
    if work.task.layout == "tensor":
        return np.stack([work.x.min(), work.x.max()])
    x = work.x.reshape(len(work.x), -1, work.block_size) if work.block_size else work.x
    axis = -1 if work.block_size else 1 - work.axis
    return np.stack([x.min(axis=axis), x.max(axis=axis)])


# quarkfast's histogram has this many bins; rivals count into as many of the same width.
BINS = 4096


def histogram_edge(work: Workload) -> float:
    """Where the outermost of quarkfast's bins ends: rivals must be told, which costs them nothing here."""
    return float(np.exp2(np.ceil(np.log2(np.abs(work.x).max()))))


def _copied(*dtypes: str) -> Any:
    """Set up a chain of casting copies, from the input through the named dtypes (``type`` is the task's)."""

    def setup(work: Workload, threads: int) -> Entry | None:
        if work.task.type != "float16":
            return None
        return copies(work, dtypes)

    return setup


def copies(work: Workload, dtypes: tuple[str, ...]) -> Entry:
    """Copy the input through preallocated arrays of each dtype in turn."""
    arrays = [OPERATIONS[work.task.operation].input(work)]
    arrays += [np.empty(work.shape, work.row.dtype if name == "type" else name) for name in dtypes]

    def run() -> None:
        for x, y in itertools.pairwise(arrays):
            np.copyto(y, x, casting="unsafe")

    return Entry(run, lambda: arrays[-1])


def _rows(work: Workload, threads: int) -> Entry:
    y, out = np.empty(work.shape, np.float32), np.empty(work.shape, np.int8)

    def run() -> None:
        np.abs(work.x, out=y)
        scales = y.max(axis=1, keepdims=True) / np.float32(127)
        np.divide(work.x, scales, out=y)
        np.rint(y, out=y)
        np.copyto(out, y, casting="unsafe")

    return Entry(run, lambda: out)


SETUPS = {
    "quantize_rows": _rows,
    "quantize_linear": quantize_linear,
    "dequantize_linear": dequantize_linear,
    "fake_quantize_linear": fake_quantize_linear,
    "cast": _copied("type"),
    "widen": _copied("float32"),
    "round_trip": _copied("type", "float32"),
    "pack_codes": pack_codes,
    "unpack_codes": unpack_codes,
    "reduce_range": _told(lambda work: np.float32([work.x.min(), work.x.max()])),
    "histogram": _told(_histogram),
    "moments": _told(lambda work: np.float32([work.x.mean(), work.x.var()])),
    "absmax": _told(_absmax),
    "extremes": _told(_extremes),
}
