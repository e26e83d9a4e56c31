"""quarkfast through its public functions, writing to a preallocated output."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import quarkfast
from bench.operations import BLOCK_FORMATS, NV_SCALE, OPERATIONS, SEED
from bench.workload import Entry, Workload
from quarkfast import kernels

NAME = "quarkfast"
EXACT = True
HAS_THREADS = True


def set_threads(threads: int) -> None:
    quarkfast.set_num_threads(threads)


def _into(prepare: Callable[[Workload], Callable[..., Any]]) -> Callable[[Workload, int], Entry]:
    """Set up a function of (x, out=...), which ``prepare`` makes outside of what is timed."""

    def setup(work: Workload, threads: int) -> Entry:
        operation = OPERATIONS[work.task.operation]
        x, call = operation.input(work), prepare(work)
        out = operation.output(work) if operation.output else None
        return Entry(lambda: call(x, out=out), lambda: out)

    return setup


def _told(call: Callable[[Workload], Any], values: Callable[[Any], Any]) -> Callable[[Workload, int], Entry]:
    """Set up a statistic; ``values`` makes an array of what it tells."""
    return lambda work, threads: Entry(lambda: call(work), lambda: values(call(work)))


def _absmax(work: Workload) -> Any:
    return quarkfast.absmax(work.x, channel_axis={"first axis": 0, "last axis": 1}.get(work.task.layout))


def _extremes(work: Workload) -> Any:
    axis = None if work.task.layout == "tensor" else work.axis
    return kernels.extremes(work.x, channel_axis=axis, block_size=work.block_size)


def _linear(function: Callable[..., Any], *, typed: bool) -> Callable[[Workload], Callable[..., Any]]:
    def prepare(work: Workload) -> Callable[..., Any]:
        scales = {"scale": work.scale, "zero_point": work.zero_point}
        layout = {"axis": work.axis, "block_size": work.block_size} if work.task.layout != "tensor" else {}
        return partial(function, **scales, **layout, **({"dtype": work.row.dtype} if typed else {}))

    return prepare


def _typed(function: Callable[..., Any]) -> Callable[[Workload], Callable[..., Any]]:
    return lambda work: partial(function, dtype=work.row.dtype)


def _block(function: Callable[..., Any]) -> Callable[[Workload], Callable[..., Any]]:
    return lambda work: partial(function, **BLOCK_FORMATS[work.task.type])


def _first(call: Callable[[Workload], Any]) -> Callable[[Workload, int], Entry]:
    """Set up a function that makes several arrays anew, of which the first is compared."""

    def setup(work: Workload, threads: int) -> Entry:
        made: list[Any] = []

        def run() -> None:
            made[:] = call(work)

        return Entry(run, lambda: made[0])

    return setup


_BLOCK_FAMILIES = ("fake_quantize_bfp", "fake_quantize_bfp_prime", "fake_quantize_mx")

SETUPS = {
    "quantize_linear": _into(_linear(quarkfast.quantize_linear, typed=True)),
    "dequantize_linear": _into(_linear(quarkfast.dequantize_linear, typed=False)),
    "fake_quantize_linear": _into(_linear(quarkfast.fake_quantize_linear, typed=True)),
    "cast": _into(_typed(quarkfast.cast)),
    "widen": _into(lambda work: partial(quarkfast.cast, dtype=np.float32)),
    "round_trip": _into(_typed(quarkfast.round_trip)),
    "pack_codes": _into(lambda work: quarkfast.pack_codes),
    "unpack_codes": _into(lambda work: partial(quarkfast.unpack_codes, dtype=work.row.dtype, shape=work.shape)),
    **{name: _into(_block(getattr(quarkfast, name))) for name in _BLOCK_FAMILIES},
    "requantize_linear": _into(_linear(quarkfast.requantize_linear, typed=True)),
    "quantize_gguf": _into(lambda work: partial(quarkfast.quantize_gguf, type=work.task.type)),
    "dequantize_gguf": _into(lambda work: partial(quarkfast.dequantize_gguf, type=work.task.type)),
    "quantize_mxfp4": _first(lambda work: quarkfast.quantize_mxfp4(work.x, block_size=work.block_size)),
    "quantize_nvfp4": _first(lambda work: quarkfast.quantize_nvfp4(work.x, tensor_scale=float(NV_SCALE))),
    "quantize_rows": _into(lambda work: quarkfast.quantize_rows),
    "quantize_linear_stochastic": _into(_linear(partial(quarkfast.quantize_linear_stochastic, seed=SEED), typed=True)),
    "cast_stochastic": _into(lambda work: partial(quarkfast.cast_stochastic, seed=SEED)),
    "reduce_range": _told(
        lambda work: quarkfast.reduce_range(work.x), lambda found: np.float32([found.min, found.max])
    ),
    "histogram": _told(lambda work: quarkfast.histogram(work.x), lambda found: found.counts),
    "moments": _told(lambda work: quarkfast.moments(work.x), lambda found: np.float32([found.mean, found.variance])),
    "absmax": _told(_absmax, lambda found: found),
    "extremes": _told(_extremes, np.stack),
}
