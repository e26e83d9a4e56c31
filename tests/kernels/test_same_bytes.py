"""Every kernel gives the same bytes on every instruction set, thread count, alignment and chunking."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import quarkfast
from kernels.every_kernel import ROWS, Row
from quarkfast import _core

THREADS = (1, 2, 3, 8)
# Elements between the begin of a cache line and the begin of an array.
OFFSETS = (0, 1, 7)
# What _core offers beside kernels.
NO_KERNELS = {
    "active_isa",
    "available_isas",
    "use_isa",
    "usable_processors",
    "num_threads",
    "set_num_threads",
    "output",
    "Collector",
    "release_memory",
    "resident_bytes",
}
# Functions of one histogram in one thread: no array to cut; tests/kernels/test_range_estimation.py runs them on every
# instruction set.
ON_A_HISTOGRAM = {
    "entropy_range",
    "entropy_window_range",
    "least_error_range",
    "percentile_range",
    "power_of_two_range",
    "quantization_error",
    "spread",
}
# What _core offers as arguments of kernels.
CHOICES = {"Bfp", "BfpPrime", "Mx"}


@pytest.fixture
def any_threads() -> Iterator[None]:
    """Restore the number of threads."""
    before = quarkfast.num_threads()
    yield
    quarkfast.set_num_threads(before)


def placed(n: int, dtype: Any, offset: int) -> Any:
    """Return an uninitialized array that begins so many elements behind a multiple of 64 bytes."""
    item = np.dtype(dtype).itemsize
    buffer = np.empty((n + offset) * item + 64, np.uint8)
    begin = -buffer.ctypes.data % 64 + offset * item
    return buffer[begin : begin + n * item].view(dtype)


def source(row: Row) -> Any:
    """The input of a row, the same in every test."""
    return row.source(np.random.default_rng(zlib.crc32(row.name.encode())))


def run(row: Row, whole: Any, offset: int, begin: int, end: int) -> bytes:
    """Run a row on a part of its input, laid at an offset; return the bytes that it made."""
    x = placed(end - begin, whole.dtype, offset)
    x[...] = whole[begin:end]
    made = row.run(x, placed(row.out_size(end - begin), row.out, offset), begin)
    return np.ascontiguousarray(made).tobytes()


@cache
def expected(row: Row) -> bytes:
    """What the last instruction set makes on one thread, in one piece: the plainest way there is."""
    threads = quarkfast.num_threads()
    with quarkfast.use_isa(quarkfast.available_isas()[-1]):
        quarkfast.set_num_threads(1)
        made = run(row, source(row), 0, 0, source(row).size)
    quarkfast.set_num_threads(threads)
    return made


@pytest.mark.usefixtures("any_threads")
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_no_rung_thread_count_or_alignment_changes_a_byte(row: Row) -> None:
    whole, told = source(row), expected(row)
    for isa, threads, offset in itertools.product(quarkfast.available_isas(), THREADS, OFFSETS):
        quarkfast.set_num_threads(threads)
        with quarkfast.use_isa(isa):
            assert run(row, whole, offset, 0, whole.size) == told, (isa, threads, offset)


@pytest.mark.parametrize("row", [row for row in ROWS if row.cut], ids=str)
def test_an_array_in_pieces_gives_the_bytes_of_the_whole(row: Row) -> None:
    whole = source(row)
    # An empty piece, one element, about a vector, odd lengths, a third, the rest.
    units = whole.size // row.cut
    cuts = [row.cut * min(cut, units) for cut in sorted((0, 0, 1, 17, 64, 1000, units // 3))] + [whole.size]
    for isa in quarkfast.available_isas():
        with quarkfast.use_isa(isa):
            pieces = [run(row, whole, 0, begin, end) for begin, end in itertools.pairwise(cuts)]
        assert b"".join(pieces) == expected(row), isa


def test_every_native_kernel_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    called = set()
    names = {name for name in dir(_core) if not name.startswith("_")} - NO_KERNELS - ON_A_HISTOGRAM - CHOICES

    def recording(name: str) -> Any:
        kernel = getattr(_core, name)

        def call(*arguments: Any) -> Any:
            called.add(name)
            return kernel(*arguments)

        return call

    for name in names:
        monkeypatch.setattr(_core, name, recording(name))
    for row in ROWS:
        run(row, source(row), 0, 0, 16 * row.cut or 16)
    assert called == names
