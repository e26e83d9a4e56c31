"""The operations: what the reference answers, what the input is and how many bytes an element moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import quarkfast
from bench.workload import Array, Workload
from quarkfast import reference
from quarkfast.kernels.gguf import GGUF_TYPES
from quarkfast.reference import blocks, small_floats


@dataclass(frozen=True)
class Operation:
    """One operation.

    Attributes:
        expected: The reference's answer for a stretch of the flattened input.
        input: Makes the array that the contestants read.
        output: Makes an array for a contestant to write to; None where the result is no array of the input's length.
        whole: Whether the result is compared as a whole, not in stretches.
        conventions: Whether rivals may count a value on the edge of a bin on its other side, or sum in another order.
        place: Where the answer for a stretch of the input lies in the flattened result.
    """

    expected: Callable[[Workload, slice], Any]
    input: Callable[[Workload], Array]
    output: Callable[[Workload], Array] | None
    whole: bool = False
    conventions: bool = False
    place: Callable[[Workload, slice], slice] = lambda _, part: part

    def bytes_moved(self, work: Workload) -> int:
        """Bytes read and written once, without what a cache line drags along."""
        return self.input(work).nbytes + (self.output(work).nbytes if self.output else 0)


def floats(work: Workload) -> Array:
    """The float32 values."""
    return work.x


def new_floats(work: Workload) -> Array:
    """A float32 output."""
    return np.empty(work.shape, np.float32)


def new_codes(work: Workload) -> Array:
    """An output of the quantized type."""
    return np.empty(work.shape, work.row.dtype)


def new_bytes(work: Workload) -> Array:
    """A packed output."""
    return np.empty(work.x.size * work.row.bits // 8, np.uint8)


def flat(work: Workload, part: slice) -> tuple[Array, Array, Array]:
    """x, scale and zero point of each element of the stretch."""
    rows = slice(part.start // work.shape[1], -(-part.stop // work.shape[1]))
    begin = part.start - rows.start * work.shape[1]
    cut = slice(begin, begin + part.stop - part.start)
    each = (work.x, work.per_element(work.scale), work.per_element(work.zero_point))
    return tuple(values[rows].reshape(-1)[cut] for values in each)  # type: ignore[return-value]


def codes(work: Workload) -> Array:
    """Input of the operations that read codes: what quarkfast makes of x, itself checked by its own task."""
    if work.row.is_integer:
        return quarkfast.quantize_linear(
            work.x, work.scale, work.zero_point, dtype=work.row.dtype, axis=work.axis, block_size=work.block_size
        )
    return work.x.astype(work.row.dtype)


def _quantized(work: Workload, part: slice) -> Array:
    return reference.quantize_linear(*flat(work, part), work.row)


def _dequantized(work: Workload, part: slice) -> Array:
    _, scale, zero_point = flat(work, part)
    return reference.dequantize_linear(codes(work).reshape(-1)[part], scale, zero_point)


def _fake_quantized(work: Workload, part: slice) -> Array:
    return reference.fake_quantize_linear(*flat(work, part), work.row)


def _cast(work: Workload, part: slice) -> Array:
    return getattr(reference, f"cast_f32_{work.row.code}")(work.x.reshape(-1)[part])


def _widened(work: Workload, part: slice) -> Array:
    return getattr(reference, f"cast_{work.row.code}_f32")(codes(work).reshape(-1)[part])


def _rounded(work: Workload, part: slice) -> Array:
    x = work.x.reshape(-1)[part]
    if work.row.bits <= 8:
        return small_floats.round_trip(x, work.row.code)
    return getattr(reference, f"round_trip_f32_{work.row.code}")(x)


def _packed(work: Workload, _: slice) -> Array:
    return reference.pack_codes(codes(work), work.row.bits)


def packed(work: Workload) -> Array:
    """Packed codes."""
    return quarkfast.pack_codes(codes(work))


def _unpacked(work: Workload, part: slice) -> Array:
    return codes(work).reshape(-1)[part]


BLOCK_FORMATS: dict[str, dict[str, Any]] = {
    "BFP16": {"bit_width": 16},
    "BFP16 raised": {"bit_width": 16, "raise_exponent": True},
    "MX9": {"bit_width": 16},
    "MX6": {"bit_width": 13},
    "MX4": {"bit_width": 11},
    **{name: {"element": name} for name in ("fp8_e5m2", "fp8_e4m3", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "int8")},
}
_BLOCK_SIZES = {"fake_quantize_bfp": 8, "fake_quantize_bfp_prime": 16, "fake_quantize_mx": 32}


def _block_rounded(work: Workload, part: slice) -> Array:
    operation, x = work.task.operation, work.x.reshape(-1)[part].reshape(-1, work.shape[1])
    given = blocks.split_blocks(x, 1, _BLOCK_SIZES[operation])
    rounded = getattr(blocks, operation)(given, **BLOCK_FORMATS[work.task.type])
    return blocks.join_blocks(rounded, x.shape, 1).reshape(-1)


def sums(work: Workload) -> Array:
    """32-bit sums, of which a few saturate."""
    return np.rint(work.x * 40000).astype(np.int32)


def _requantized(work: Workload, part: slice) -> Array:
    return reference.requantize_linear(sums(work).reshape(-1)[part], work.scale, work.zero_point, work.row.dtype)


def _range(work: Workload, _: slice) -> Array:
    found = reference.reduce_range(work.x)
    return np.float32([found["min"], found["max"]])


def _histogram(work: Workload, _: slice) -> Array:
    return reference.count_histogram(work.x)[0]


def _moments(work: Workload, _: slice) -> Array:
    return np.float32([work.x.mean(dtype=np.float64), work.x.var(dtype=np.float64)])


def _absmax(work: Workload, _: slice) -> Array:
    other = {"first axis": 1, "last axis": 0}.get(work.task.layout)
    return np.abs(work.x).max(axis=other)


def _records_place(work: Workload, part: slice) -> slice:
    values, record = GGUF_TYPES[work.task.type]
    return slice(part.start // values * record, part.stop // values * record)


def _half(_: Workload, part: slice) -> slice:
    return slice(part.start // 2, part.stop // 2)


def new_records(work: Workload) -> Array:
    """Blocks of GGUF, not written yet."""
    return np.empty((work.shape[0], _records_place(work, slice(0, work.shape[1])).stop), np.uint8)


def records(work: Workload) -> Array:
    """Blocks of GGUF."""
    return quarkfast.quantize_gguf(work.x, work.task.type)


def _gguf(work: Workload, part: slice) -> Array:
    values = GGUF_TYPES[work.task.type].values
    return reference.quantize_gguf(work.x.reshape(-1)[part].reshape(-1, values), work.task.type)


def _gguf_values(work: Workload, part: slice) -> Array:
    at, record = _records_place(work, part), GGUF_TYPES[work.task.type].bytes
    return reference.dequantize_gguf(records(work).reshape(-1)[at].reshape(-1, record), work.task.type)


#: The scale of the whole tensor in tasks of NVFP4.
NV_SCALE = np.float32(0.002)


def new_halves(work: Workload) -> Array:
    """Codes of four bits."""
    return np.empty((work.shape[0], work.shape[1] // 2), np.uint8)


def _mxfp4(work: Workload, part: slice) -> Array:
    return reference.quantize_mxfp4(work.x.reshape(-1)[part], work.block_size)[0]


def _nvfp4(work: Workload, part: slice) -> Array:
    return reference.quantize_nvfp4(work.x.reshape(-1)[part], NV_SCALE)[0]


def _rows(work: Workload, part: slice) -> Array:
    return reference.quantize_rows(work.x.reshape(-1)[part].reshape(-1, work.shape[1]))[0]


#: The seed of tasks with stochastic rounding.
SEED = 1


def _stochastic(work: Workload, part: slice) -> Array:
    x, scale, zero_point = flat(work, slice(0, part.stop))
    return reference.quantize_linear_stochastic(x, scale, zero_point, work.row.dtype, SEED)[part]


def _cast_stochastic(work: Workload, part: slice) -> Array:
    return reference.cast_stochastic(work.x.reshape(-1)[: part.stop], SEED)[part]


def _extremes(work: Workload, _: slice) -> Array:
    axis = None if work.task.layout == "tensor" else work.axis
    if axis is None:
        return np.stack([work.x.min(), work.x.max()])
    return np.stack(reference.reduce_extremes(work.x, axis, work.block_size))


OPERATIONS = {
    "quantize_linear": Operation(_quantized, floats, new_codes),
    "dequantize_linear": Operation(_dequantized, codes, new_floats),
    "fake_quantize_linear": Operation(_fake_quantized, floats, new_floats),
    "pack_codes": Operation(_packed, codes, new_bytes, whole=True),
    "unpack_codes": Operation(_unpacked, packed, new_codes),
    "cast": Operation(_cast, floats, new_codes),
    "widen": Operation(_widened, codes, new_floats),
    "round_trip": Operation(_rounded, floats, new_floats),
    **{name: Operation(_block_rounded, floats, new_floats) for name in _BLOCK_SIZES},
    "requantize_linear": Operation(_requantized, sums, new_codes),
    "quantize_gguf": Operation(_gguf, floats, new_records, place=_records_place),
    "dequantize_gguf": Operation(_gguf_values, records, new_floats),
    "quantize_mxfp4": Operation(_mxfp4, floats, new_halves, place=_half),
    "quantize_nvfp4": Operation(_nvfp4, floats, new_halves, place=_half),
    "quantize_rows": Operation(_rows, floats, new_codes),
    "quantize_linear_stochastic": Operation(_stochastic, floats, new_codes),
    "cast_stochastic": Operation(_cast_stochastic, floats, new_codes),
    "reduce_range": Operation(_range, floats, None, whole=True),
    "histogram": Operation(_histogram, floats, None, whole=True, conventions=True),
    "moments": Operation(_moments, floats, None, whole=True, conventions=True),
    "absmax": Operation(_absmax, floats, None, whole=True),
    "extremes": Operation(_extremes, floats, None, whole=True),
}
