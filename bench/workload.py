"""What a contestant is asked to do: a task at a size, with its inputs and the answer that the reference gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.formats.scalar import SCALAR_FORMATS, ScalarFormat, qtype

Array = NDArray[Any]

#: Bytes of float32 on the wide side of a task: first-level cache, second-level cache, memory.
SIZES = {"16 KiB": 1 << 14, "1 MiB": 1 << 20, "64 MiB": 1 << 26}

CHANNELS_FIRST = 16
CHANNELS_LAST = 256
# Beyond this many elements only three stretches of this length are compared: the reference takes seconds for 64 MiB.
STRETCH = 1 << 17


@dataclass(frozen=True)
class Task:
    """A row of the tables.

    Attributes:
        operation: Name of the entry in the ``SETUPS`` of each contestant and in ``operations.OPERATIONS``.
        type: The quantized type, by its name in ``quarkfast.formats.scalar``, or the variant of a block format.
        layout: ``tensor``, ``first axis``, ``last axis`` or ``blocks of N`` (along the last axis).
        bar: Largest allowed time at 64 MiB on one thread, as a multiple of a plain copy; 0 where none was set.
    """

    operation: str
    type: str = ""
    layout: str = "tensor"
    bar: float = 0.0

    def __str__(self) -> str:
        return " ".join(
            part for part in (self.operation, self.type, "" if self.layout == "tensor" else self.layout) if part
        )


class Workload:
    """A task at one size: arrays made once, the same for all contestants."""

    def __init__(self, task: Task, n: int, reference: Callable[[Workload, slice], Any]) -> None:
        self.task = task
        self._reference = reference
        self._expected: dict[tuple[int, int], Any] = {}
        self.shape = {"first axis": (CHANNELS_FIRST, n // CHANNELS_FIRST)}.get(
            task.layout, (n // CHANNELS_LAST, CHANNELS_LAST)
        )
        self.x = normal(n).reshape(self.shape)
        self.block_size = int(task.layout.split()[-1]) if task.layout.startswith("blocks of") else 0
        self.axis = 0 if task.layout == "first axis" else 1
        self.scale, self.zero_point = self._scales()

    @property
    def row(self) -> ScalarFormat:
        """The quantized type."""
        return qtype(self.task.type)

    def _scales(self) -> tuple[Array, Array]:
        if self.task.type not in SCALAR_FORMATS or not self.row.is_integer:
            return np.float32(1.0), np.int8(0)
        # Three standard deviations fill the range, so that a few values saturate.
        step = 6.0 / 2.0 ** min(self.row.bits, 20)
        center = 3 if self.row.signed else (1 << (self.row.bits - 1)) - 3
        if self.task.layout == "tensor":
            return np.float32(step), np.asarray(center).astype(self.row.dtype)
        shape = (self.shape[0], -(-self.shape[1] // self.block_size)) if self.block_size else (self.shape[self.axis],)
        scale = np.random.default_rng(1).uniform(0.8 * step, step, shape).astype(np.float32)
        return scale, np.full(shape, center).astype(self.row.dtype)

    def per_element(self, values: Array) -> Array:
        """Broadcast scales or zero points to the shape of x."""
        if self.block_size:
            return np.repeat(values, self.block_size, axis=1)[:, : self.shape[1]]
        return np.broadcast_to(values if self.axis else np.reshape(values, (-1, 1)), self.shape)

    def expected(self, part: slice) -> Array:
        """The reference's answer, made once for all contestants."""
        if (part.start, part.stop) not in self._expected:
            self._expected[part.start, part.stop] = self._reference(self, part)
        return self._expected[part.start, part.stop]

    def stretches(self) -> list[slice]:
        """Parts of the flattened arrays to compare: all of a small one, begin, middle and end of a large one."""
        n = self.x.size
        if n <= 2 * STRETCH:
            return [slice(0, n)]
        return [slice(begin, begin + STRETCH) for begin in (0, n // 2, n - STRETCH)]


@lru_cache(maxsize=3)
def normal(n: int) -> Array:
    """Normally distributed float32 values, the same in every run."""
    return np.random.default_rng(0).standard_normal(n, dtype=np.float32)


@dataclass(frozen=True)
class Entry:
    """A contestant at the start: ``run`` is timed, ``result`` returns what the last run made, as NumPy."""

    run: Callable[[], object]
    result: Callable[[], Any]
