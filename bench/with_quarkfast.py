"""quarkfast through its public functions, writing to a preallocated output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import quarkfast
from bench.operations import OPERATIONS
from bench.workload import Entry, Workload

NAME = "quarkfast"
EXACT = True
HAS_THREADS = True


def set_threads(threads: int) -> None:
    quarkfast.set_num_threads(threads)


def _into(call: Callable[..., Any]) -> Callable[[Workload, int], Entry]:
    """Set up ``call(work, x, out)``."""

    def setup(work: Workload, threads: int) -> Entry:
        operation = OPERATIONS[work.task.operation]
        x, out = operation.input(work), operation.output(work)
        return Entry(lambda: call(work, x, out), lambda: out)

    return setup


def _parameters(work: Workload) -> dict[str, Any]:
    return {"axis": work.axis, "block_size": work.block_size}


def _range(work: Workload, threads: int) -> Entry:
    def result() -> Any:
        found = quarkfast.reduce_range(work.x)
        return np.float32([found.min, found.max])

    return Entry(lambda: quarkfast.reduce_range(work.x), result)


def _quantize(work: Workload, x: Any, out: Any) -> None:
    quarkfast.quantize_linear(x, work.scale, work.zero_point, dtype=work.row.dtype, out=out, **_parameters(work))


def _dequantize(work: Workload, x: Any, out: Any) -> None:
    quarkfast.dequantize_linear(x, work.scale, work.zero_point, out=out, **_parameters(work))


def _fake_quantize(work: Workload, x: Any, out: Any) -> None:
    quarkfast.fake_quantize_linear(x, work.scale, work.zero_point, dtype=work.row.dtype, out=out, **_parameters(work))


SETUPS = {
    "quantize_linear": _into(_quantize),
    "dequantize_linear": _into(_dequantize),
    "fake_quantize_linear": _into(_fake_quantize),
    "cast": _into(lambda work, x, out: quarkfast.cast(x, work.row.dtype, out=out)),
    "widen": _into(lambda work, x, out: quarkfast.cast(x, np.float32, out=out)),
    "round_trip": _into(lambda work, x, out: quarkfast.round_trip(x, work.row.dtype, out=out)),
    "reduce_range": _range,
}
