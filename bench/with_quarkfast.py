"""quarkfast through its public functions, writing to a preallocated output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import quarkfast
from bench.operations import BLOCK_FORMATS, OPERATIONS
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
        x = operation.input(work)
        out = operation.output(work) if operation.output else None
        return Entry(lambda: call(work, x, out), lambda: out)

    return setup


def _parameters(work: Workload) -> dict[str, Any]:
    return {"axis": work.axis, "block_size": work.block_size}


def _told(call: Callable[[Workload], Any], values: Callable[[Any], Any]) -> Callable[[Workload, int], Entry]:
    """Set up a statistic; ``values`` makes an array of what it tells."""
    return lambda work, threads: Entry(lambda: call(work), lambda: values(call(work)))


def _absmax(work: Workload) -> Any:
    return quarkfast.absmax(work.x, {"first axis": 0, "last axis": 1}.get(work.task.layout))


def _quantize(work: Workload, x: Any, out: Any) -> None:
    quarkfast.quantize_linear(x, work.scale, work.zero_point, dtype=work.row.dtype, out=out, **_parameters(work))


def _dequantize(work: Workload, x: Any, out: Any) -> None:
    quarkfast.dequantize_linear(x, work.scale, work.zero_point, out=out, **_parameters(work))


def _fake_quantize(work: Workload, x: Any, out: Any) -> None:
    quarkfast.fake_quantize_linear(x, work.scale, work.zero_point, dtype=work.row.dtype, out=out, **_parameters(work))


_BLOCK_FAMILIES = ("fake_quantize_bfp", "fake_quantize_bfp_prime", "fake_quantize_mx")


def _block(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda work, x, out: function(x, out=out, **BLOCK_FORMATS[work.task.type])


SETUPS = {
    "quantize_linear": _into(_quantize),
    "dequantize_linear": _into(_dequantize),
    "fake_quantize_linear": _into(_fake_quantize),
    "cast": _into(lambda work, x, out: quarkfast.cast(x, work.row.dtype, out=out)),
    "widen": _into(lambda work, x, out: quarkfast.cast(x, np.float32, out=out)),
    "round_trip": _into(lambda work, x, out: quarkfast.round_trip(x, work.row.dtype, out=out)),
    "pack_codes": _into(lambda work, x, out: quarkfast.pack_codes(x, out=out)),
    "unpack_codes": _into(
        lambda work, x, out: quarkfast.unpack_codes(x, work.row.dtype, work.shape, out=out),
    ),
    **{name: _into(_block(getattr(quarkfast, name))) for name in _BLOCK_FAMILIES},
    "requantize_linear": _into(
        lambda work, x, out: quarkfast.requantize_linear(x, work.scale, work.zero_point, dtype=work.row.dtype, out=out),
    ),
    "reduce_range": _told(
        lambda work: quarkfast.reduce_range(work.x), lambda found: np.float32([found.min, found.max])
    ),
    "histogram": _told(lambda work: quarkfast.histogram(work.x), lambda found: found.counts),
    "moments": _told(lambda work: quarkfast.moments(work.x), lambda found: np.float32([found.mean, found.variance])),
    "absmax": _told(_absmax, lambda found: found),
}
