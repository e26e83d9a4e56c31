"""Kernels and collectors may be called from many threads at once; run under ThreadSanitizer by `nox -s race`."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import quarkfast
from quarkfast import _core

CALLERS = 4
CALLS = 24


def every_kind(x: np.ndarray) -> list[Any]:
    """One call of each family."""
    scale = np.full(x.shape[1], 0.02, np.float32)
    q = quarkfast.quantize_linear(x, scale, axis=1)
    moments = quarkfast.moments(x)
    return [
        q.tobytes(),
        quarkfast.dequantize_linear(q, 0.02).tobytes(),
        quarkfast.fake_quantize_linear(x, 0.02, dtype="uint4", zero_point=8).tobytes(),
        quarkfast.cast(x, "float16").tobytes(),
        quarkfast.round_trip(x, "bfloat16").tobytes(),
        quarkfast.histogram(x).counts.tobytes(),
        (moments.count, moments.sum, moments.squares),
        quarkfast.absmax(x, channel_axis=1).tobytes(),
        quarkfast.reduce_range(x),
        *(result.tobytes() for result in blocks_and_codes(x)),
    ]


def blocks_and_codes(x: np.ndarray) -> list[np.ndarray]:
    """One call of each family of block formats, of packing, requantization and small floats."""
    records, codes = quarkfast.quantize_mx(x, "fp4_e2m1"), quarkfast.quantize_linear(x, 0.5, dtype="int4")
    sums = (x * 1000).astype(np.int32)
    return [
        quarkfast.fake_quantize_bfp(x),
        quarkfast.fake_quantize_bfp(x, axis=0),
        quarkfast.fake_quantize_bfp_prime(x.astype(np.float16), bit_width=11),
        quarkfast.fake_quantize_mx(x, "fp6_e3m2", axis=0),
        records,
        quarkfast.dequantize_mx(records, x.shape[1], "fp4_e2m1"),
        quarkfast.unpack_codes(quarkfast.pack_codes(codes), "int4", x.shape),
        quarkfast.requantize_shift(sums, 4),
        quarkfast.requantize_linear(sums, np.float32(0.01)),
        quarkfast.cast(x, "float8_e4m3fn", saturate=True),
    ]


@pytest.fixture
def two_threads() -> Any:
    before = quarkfast.num_threads()
    quarkfast.set_num_threads(2)
    yield
    quarkfast.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_calls_from_many_threads_at_once_do_not_disturb_each_other(rng: np.random.Generator) -> None:
    arrays = [rng.standard_normal((256, 300)).astype(np.float32) for _ in range(CALLS)]
    expected = [every_kind(x) for x in arrays]
    with ThreadPoolExecutor(CALLERS) as pool:
        assert list(pool.map(every_kind, arrays)) == expected


@pytest.mark.usefixtures("two_threads")
def test_threads_come_and_go_between_calls(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1 << 10, 300)).astype(np.float32)
    expected = every_kind(x)
    for threads in (3, 1, 40, 2, 7):  # 40 are more than there are pieces, and more than are kept off a processor
        quarkfast.set_num_threads(threads)
        assert every_kind(x) == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no thread to a processor")
@pytest.mark.usefixtures("two_threads")
def test_a_caller_may_be_bound_to_one_processor(rng: np.random.Generator) -> None:
    x = rng.standard_normal((1 << 10, 300)).astype(np.float32)
    expected = every_kind(x)
    allowed = os.sched_getaffinity(0)
    try:
        for processor in sorted(allowed)[:2]:
            os.sched_setaffinity(0, {processor})
            assert every_kind(x) == expected
            assert os.sched_getaffinity(0) == {processor}
            assert _core.usable_processors() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.usefixtures("two_threads")
def test_the_rung_may_change_while_others_compute(rng: np.random.Generator) -> None:
    x = rng.standard_normal((256, 300)).astype(np.float32)
    expected = every_kind(x)
    before = quarkfast.active_isa()
    with ThreadPoolExecutor(CALLERS) as pool:
        results = [pool.submit(every_kind, x) for _ in range(CALLS)]
        for _ in range(CALLS):
            for isa in quarkfast.available_isas():
                quarkfast.use_isa(isa)
        assert all(result.result() == expected for result in results)
    quarkfast.use_isa(before)


def test_threads_that_observe_the_same_slot_add_up(rng: np.random.Generator) -> None:
    arrays = [rng.standard_normal(5000).astype(np.float32) for _ in range(CALLS)]
    together, alone = (_core.Collector(2, histogram=True, moments=True) for _ in range(2))
    for x in arrays:
        alone.observe(1, x)
    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(lambda x: together.observe(1, x), arrays))
        # Readers see a whole number of observations, whenever they look.
        assert all(pool.submit(together.range, 1).result()["count"] == CALLS * 5000 for _ in range(CALLERS))
    assert together.range(1) == alone.range(1)
    assert together.moments(1) == alone.moments(1)
    assert [np.array_equal(a, b) for a, b in zip(together.histogram(1), alone.histogram(1), strict=True)] == [True] * 2


def test_collectors_open_and_close_from_many_threads(rng: np.random.Generator) -> None:
    x = rng.standard_normal(100).astype(np.float32)

    def live(_: int) -> tuple[int, int]:
        collector = _core.Collector(1)
        collector.observe(0, x)
        return collector.id, collector.range(0)["count"]

    with ThreadPoolExecutor(CALLERS) as pool:
        ids, counts = zip(*pool.map(live, range(CALLS)), strict=True)
    assert len(set(ids)) == CALLS
    assert set(counts) == {100}


def test_threads_of_every_dtype_are_told_apart(rng: np.random.Generator) -> None:
    x = rng.standard_normal(40).astype(np.float32)
    codes = quarkfast.quantize_linear(x, 0.5)
    arrays = [x, quarkfast.cast(x, "bfloat16"), quarkfast.cast(x, "float8_e4m3fn"), codes, x.astype(np.float64)]
    arrays += [copy.deepcopy(array) for array in arrays]  # whose dtypes are objects of their own
    calls = (_core.cast_f32_bf16, _core.cast_bf16_f32, _core.cast_e4m3fn_f32, _core.reduce_range_f32)

    def outcomes(_: int) -> list[str]:
        return [outcome(call, array) for array in arrays for call in calls]

    def outcome(call: Any, array: np.ndarray) -> str:
        try:
            return str(call(array, None) if call is not _core.reduce_range_f32 else call(array))
        except TypeError as error:
            return str(error)

    expected = outcomes(0)
    assert sum("expected dtype" in each for each in expected) == 2 * (5 * 4 - 4)
    with ThreadPoolExecutor(CALLERS) as pool:
        assert list(pool.map(outcomes, range(8 * CALLS))) == [expected] * (8 * CALLS)


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python cannot run without its lock")
def test_a_free_threaded_python_does_not_take_its_lock_back() -> None:
    code = "import sys; from quarkfast import _core; sys.exit(sys._is_gil_enabled())"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
