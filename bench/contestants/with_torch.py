"""torch's eager operators. Where torch has no ``out``, its figure includes the allocation of the result."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch

from bench.contestants.with_numpy import BINS, histogram_edge
from bench.workload import Entry, Workload

NAME = "torch"
# torch multiplies by the reciprocal of the scale: about one code in a million differs.
EXACT = False
HAS_THREADS = True

# Not qint32: with the reciprocal of the scale most of its codes differ.
_QUANTIZED = {"int8": torch.qint8, "uint8": torch.quint8}
_FLOATS = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e4m3fnuz": torch.float8_e4m3fnuz,
    "float8_e5m2": torch.float8_e5m2,
    "float8_e5m2fnuz": torch.float8_e5m2fnuz,
}


def set_threads(threads: int) -> None:
    torch.set_num_threads(threads)


def _remembered(call: Any, to_numpy: Any) -> Entry:
    made: list[Any] = []

    def run() -> None:
        made[:] = [call()]

    return Entry(run, lambda: to_numpy(made[0]))


def _quantizer(work: Workload) -> Any:
    if work.task.type not in _QUANTIZED or work.block_size:
        return None
    dtype = _QUANTIZED[work.task.type]
    if work.task.layout == "tensor":
        scale, zero_point = float(work.scale), int(work.zero_point)
        return lambda x: torch.quantize_per_tensor(x, scale, zero_point, dtype)
    scales = torch.from_numpy(work.scale.astype(np.float64))
    zero_points = torch.from_numpy(work.zero_point.astype(np.int64))
    return lambda x: torch.quantize_per_channel(x, scales, zero_points, work.axis, dtype)


def quantize_linear(work: Workload, threads: int) -> Entry | None:
    quantizer, x = _quantizer(work), torch.from_numpy(work.x)
    return quantizer and _remembered(lambda: quantizer(x), lambda made: made.int_repr().numpy())


def dequantize_linear(work: Workload, threads: int) -> Entry | None:
    quantizer = _quantizer(work)
    if quantizer is None:
        return None
    q = quantizer(torch.from_numpy(work.x))
    return _remembered(q.dequantize, lambda made: made.numpy())


def fake_quantize_linear(work: Workload, threads: int) -> Entry | None:
    if work.task.type not in ("int8", "uint8") or work.block_size:
        return None
    x, low, high = torch.from_numpy(work.x), int(work.row.qmin), int(work.row.qmax)
    if work.task.layout == "tensor":
        one = (float(work.scale), int(work.zero_point), low, high)
        return _remembered(lambda: torch.fake_quantize_per_tensor_affine(x, *one), lambda made: made.numpy())
    each = (torch.from_numpy(work.scale), torch.from_numpy(work.zero_point.astype(np.int32)), work.axis, low, high)
    return _remembered(lambda: torch.fake_quantize_per_channel_affine(x, *each), lambda made: made.numpy())


def _numpy(made: Any, work: Workload) -> Any:
    if made.dtype == torch.float32:
        return made.numpy()
    return made.view(torch.uint16 if made.element_size() == 2 else torch.uint8).numpy().view(work.row.dtype)


def _copied(*names: str) -> Any:
    """Set up a chain of casting copies through preallocated tensors (``type`` is the task's)."""

    def setup(work: Workload, threads: int) -> Entry | None:
        dtype = _FLOATS.get(work.task.type)
        if dtype is None:
            return None
        first = torch.from_numpy(work.x)
        arrays = [first.to(dtype) if work.task.operation == "widen" else first]
        arrays += [torch.empty(work.shape, dtype=dtype if name == "type" else torch.float32) for name in names]

        def run() -> None:
            for x, y in itertools.pairwise(arrays):
                y.copy_(x)

        return Entry(run, lambda: _numpy(arrays[-1], work))

    return setup


def _told(call: Any) -> Any:
    """Set up a statistic; ``call(x, work)`` returns a tuple of tensors."""

    def setup(work: Workload, threads: int) -> Entry:
        x = torch.from_numpy(work.x)
        return _remembered(lambda: call(x, work), lambda made: torch.stack(tuple(made)).reshape(-1).numpy())

    return setup


def _histogram(x: Any, work: Workload) -> Any:
    edge = histogram_edge(work)
    return (torch.histc(x, BINS, -edge, edge),)


def _absmax(x: Any, work: Workload) -> Any:
    dim = {"first axis": 1, "last axis": 0}.get(work.task.layout)
    low, high = torch.aminmax(x, dim=dim) if dim is not None else torch.aminmax(x)
    return (torch.maximum(-low, high),)


def _rows(work: Workload, threads: int) -> Entry:
    x = torch.from_numpy(work.x)

    def call() -> Any:
        scales = x.abs().amax(dim=1, keepdim=True) / 127
        return (x / scales).round_().to(torch.int8)

    return _remembered(call, lambda made: made.numpy())


SETUPS = {
    "quantize_rows": _rows,
    "quantize_linear": quantize_linear,
    "dequantize_linear": dequantize_linear,
    "fake_quantize_linear": fake_quantize_linear,
    "cast": _copied("type"),
    "widen": _copied("float32"),
    "round_trip": _copied("type", "float32"),
    "reduce_range": _told(lambda x, work: torch.aminmax(x)),
    "histogram": _told(_histogram),
    "moments": _told(lambda x, work: torch.var_mean(x, correction=0)[::-1]),
    "absmax": _told(_absmax),
}
