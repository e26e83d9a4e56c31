"""Random arguments: arrays of any shape, layout and content, scales, axes, and values that nobody should pass."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

# Bytes before and behind an output that a kernel must not touch.
GUARD = 64
CANARY = 0xA5
SPECIAL = np.float32(
    [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, -1e-45, 1.1754944e-38, 0.5, -0.5, 1.5, 2.5, -2.5, 127.5, 448.0, 3.4e38]
)
# What nobody should pass: numbers out of range, other types, texts, containers.
NONSENSE = (
    *(None, -1, 0, 1, 2, 7, 1 << 31, -(1 << 31), 1 << 63, 1 << 70, True, 1.5, np.nan, np.inf, -0.0, 3j, np.int64(3)),
    *("int9", "", "int8", "float16", "uint4", b"x", np.dtype("O"), float, object(), slice(3), np.float64(0.1)),
    *((), [], [1.0, 2.0], [[1], [2, 3]], {}, np.zeros(3), np.ma.masked_array([1.0])),
)
OTHER_DTYPES = (np.float64, np.float16, np.int64, np.uint8, np.int8, bool, ">f4", "c8", "O", "S3")


class Draw:
    """A source of arguments, wholly determined by its seed."""

    def __init__(self, *seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.guarded: list[tuple[Any, Any]] = []

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high, endpoint=True))

    def shape(self, least_rank: int = 0) -> tuple[int, ...]:
        """Mostly small, now and then with an empty axis, rarely larger than a chunk of the thread pool."""
        if self.chance(0.01):
            return (self.integer(60000, 140000),) if least_rank < 2 else (3, self.integer(20000, 40000))
        limit = self.pick((3, 9, 40))
        return tuple(self.integer(0 if self.chance(0.05) else 1, limit) for _ in range(self.integer(least_rank, 4)))

    def floats(self, shape: tuple[int, ...]) -> Any:
        """float32 of random bits, special values, or moderate ones."""
        n = int(np.prod(shape))
        kind = self.integer(0, 2)
        if kind == 0:
            x = self.rng.integers(0, 1 << 32, n, dtype=np.uint64).astype(np.uint32).view(np.float32)
        elif kind == 1:
            x = self.rng.choice(SPECIAL, n)
        else:
            x = (self.rng.standard_normal(n) * self.pick((0.01, 1.0, 300.0))).astype(np.float32)
        return x.reshape(shape)

    def codes(self, dtype: Any, low: int, high: int, shape: tuple[int, ...]) -> Any:
        return self.rng.integers(low, high, shape, dtype=np.int64, endpoint=True).astype(dtype)

    def scales(self, shape: tuple[int, ...]) -> Any:
        """Positive and finite, from the smallest subnormal to the largest float."""
        exponents = self.rng.uniform(-149, 127, shape) if self.chance(0.2) else self.rng.uniform(-12, 3, shape)
        return np.maximum(np.exp2(exponents), 1e-45).astype(np.float32)

    def laid_out(self, x: Any) -> Any:
        """The same values in another memory layout."""
        kind = self.integer(0, 7)
        if kind == 0 and x.ndim:
            return np.asfortranarray(x)
        if kind == 1 and x.ndim:
            wide = np.repeat(x, 2, axis=-1)
            return wide[..., ::2]
        if kind == 2 and x.ndim:
            return np.ascontiguousarray(x[::-1])[::-1]
        if kind == 3:
            return self.odd_address(x)
        return x

    def odd_address(self, x: Any) -> Any:
        """The same values at an address that is no multiple of the item size."""
        memory = np.empty(x.nbytes + 1, np.uint8)
        memory[1:] = np.frombuffer(x.tobytes(), np.uint8)
        return memory[1:].view(x.dtype).reshape(x.shape)

    def output(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An output between canaries; :meth:`touched_canaries` tells whether they live."""
        dtype = np.dtype(dtype)
        n = int(np.prod(shape)) * dtype.itemsize
        memory = np.full(n + 2 * GUARD, CANARY, np.uint8)
        self.guarded.append((memory[:GUARD], memory[GUARD + n :]))
        return memory[GUARD : GUARD + n].view(dtype).reshape(shape)

    def touched_canaries(self) -> bool:
        return any((part != CANARY).any() for pair in self.guarded for part in pair)

    def hostile(self, value: Any) -> Any:
        """Something else than the value that a call had, likely wrong in one respect."""
        if isinstance(value, np.ndarray | np.generic) and self.chance(0.75):
            return self.hostile_array(np.asarray(value))
        return self.pick(NONSENSE)

    def hostile_array(self, x: Any) -> Any:
        """An array near the given one."""
        kind = self.integer(0, 9)
        if kind == 0:
            with contextlib.suppress(TypeError):  # ml_dtypes casts to fewer types
                return x.astype(self.pick(OTHER_DTYPES))
            return None
        if kind == 1:
            return x.reshape(*x.shape, 1)
        if kind == 2:
            return x.reshape(-1)[: max(x.size - 1, 0)]
        if kind == 3:
            frozen = x.copy()
            frozen.flags.writeable = False
            return frozen
        if kind == 4:
            return np.broadcast_to(x, (2, *x.shape))
        if kind == 5:
            return np.asfortranarray(x) if x.ndim else x
        if kind == 6:
            return self.odd_address(x)
        if kind == 7:
            return x.tolist()
        if kind == 8 and x.dtype == np.float32 and x.size:
            bad = x.copy()
            bad.reshape(-1)[self.integer(0, x.size - 1)] = self.pick((0.0, -0.0, -1.0, np.nan, np.inf, -np.inf))
            return bad
        return x.view(np.recarray) if x.ndim else x.reshape(1, 1)
