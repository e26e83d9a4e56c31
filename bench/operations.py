"""The operations: what the reference answers, what the input is and how many bytes an element moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.workload import Array, Workload
from quarkfast import reference


@dataclass(frozen=True)
class Operation:
    """One operation.

    Attributes:
        expected: The reference's answer for a stretch of the flattened input.
        codes_in: Whether the input is the quantized type instead of float32.
        codes_out: Whether the output is the quantized type instead of float32; None when there is no array to write.
    """

    expected: Callable[[Workload, slice], Any]
    codes_in: bool = False
    codes_out: bool | None = False

    def input(self, work: Workload) -> Array:
        """The array that the contestants read."""
        return codes(work) if self.codes_in else work.x

    def output(self, work: Workload) -> Array:
        """A new array for the contestant to write to."""
        return np.empty(work.shape, work.row.dtype if self.codes_out else np.float32)

    def bytes_moved(self, work: Workload) -> int:
        """Bytes read and written once, without what a cache line drags along."""
        sides = (self.codes_in, self.codes_out)
        return work.x.size * sum(0 if codes is None else work.row.dtype.itemsize if codes else 4 for codes in sides)


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
        import quarkfast

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
    return getattr(reference, f"round_f32_{work.row.code}")(work.x.reshape(-1)[part])


def _range(work: Workload, _: slice) -> Array:
    found = reference.reduce_range(work.x)
    return np.float32([found["min"], found["max"]])


OPERATIONS = {
    "quantize_linear": Operation(_quantized, codes_out=True),
    "dequantize_linear": Operation(_dequantized, codes_in=True),
    "fake_quantize_linear": Operation(_fake_quantized),
    "cast": Operation(_cast, codes_out=True),
    "widen": Operation(_widened, codes_in=True),
    "round_trip": Operation(_rounded),
    "reduce_range": Operation(_range, codes_out=None),
}
