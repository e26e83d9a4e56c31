"""Every operator on many threads at once: one session shared by all, and a session for each; always the same bytes."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import quarkfast
from quarkfast import _core, ort

from .models import Array, one_node

THREADS, RUNS = 8, 200
# ThreadSanitizer does not see how onnxruntime's threads agree, nor how its arena hands memory from one run to the next,
# and would call both a race. There sessions have one thread each, and memory that is freed after each run.
UNDER_TSAN = os.environ.get("QUARKFAST_TEST_UNDER_TSAN") == "1"
INTRA_OP_THREADS = 1 if UNDER_TSAN else 2

BFLOAT16 = ml_dtypes.bfloat16


def scalar(value: float, dtype: str = "float32") -> Array:
    return np.array(value, getattr(ml_dtypes, dtype, dtype))


X = np.random.default_rng(5).standard_normal((2, 8, 33, 17)).astype(np.float32)
CHANNELS = np.linspace(0.5, 2, 8, dtype=np.float32)
LSTM = {
    "hidden_size": 4,
    **{f"{name}_scale": 1 / 32767 for name in "xwrby"},
    **{f"{name}_zero_point": 32768 for name in "xwrby"},
}
LSTM_WEIGHTS = [np.full(shape, 0.1, np.float32) for shape in ((2, 16, 17), (2, 16, 4), (2, 32))]
PACKED = np.clip(X * 2, -4, 3).astype(np.int8), np.full((2, 8, 33, 1), 0.25, np.float32)
OPERATORS: dict[str, tuple[str, list[Array], dict[str, Any]]] = {
    "quantize": ("ExtendedQuantizeLinear", [X, CHANNELS, np.zeros(8, np.int8)], {"output": np.int8, "axis": 1}),
    "quantize uint16": ("ExtendedQuantizeLinear", [X, scalar(0.01), scalar(9, "uint16")], {"output": np.uint16}),
    "dequantize int32": ("ExtendedDequantizeLinear", [X.astype(np.int32), scalar(0.01), scalar(9, "int32")], {}),
    "quantize bfloat16": ("ExtendedQuantizeLinear", [X, scalar(1), scalar(0, "bfloat16")], {"output": BFLOAT16}),
    "quantize float16": (
        "ExtendedQuantizeLinear",
        [X, scalar(1), scalar(0, "float16")],
        {"output": np.float16},
    ),
    "dequantize": ("ExtendedDequantizeLinear", [X.astype(np.int8), CHANNELS, np.zeros(8, np.int8)], {"axis": 1}),
    "quantize and dequantize": (
        "QuantizeDequantizeLinear",
        [X, CHANNELS, np.zeros(8, np.int8)],
        {"domain": "quarkfast", "axis": 1},
    ),
    "bfp16": ("BFPQuantizeDequantize", [X], {}),
    "bfp16 by the compiler": ("BFPQuantizeDequantize", [X], {"use_compiler_version_cpu_kernel": 1}),
    "mx9": (
        "BFPQuantizeDequantize",
        [X],
        {"bfp_method": "to_bfp_prime", "bit_width": 16, "block_size": 16, "axis": -1},
    ),
    "bfp16 float16": ("BFPQuantizeDequantize", [X.astype(np.float16)], {"output": np.float16}),
    "mx": ("MXQuantizeDequantize", [X], {"element_dtype": "fp6_e2m3"}),
    "instance normalization": ("ExtendedInstanceNormalization", [X, CHANNELS, CHANNELS], {}),
    "lstm": ("ExtendedLSTM", [X[0], *LSTM_WEIGHTS], LSTM),
    "packed mx9": (
        "DequantizeBlock",
        [quarkfast.quantize_bfp_prime(X, bit_width=16), scalar(0)],
        {"domain": "quarkfast", "format": "bfp_prime", "block_size": 16, "length": 17},
    ),
    "packed int3": (
        "DequantizeBlock",
        [quarkfast.pack_linear_blocks(*PACKED, bits=3), scalar(0)],
        {"domain": "quarkfast", "format": "linear", "bits": 3, "length": 17},
    ),
}


def opened(model: Any, shared: bool) -> list[Any]:
    """A session for each thread, the same one or one of its own."""
    options = ort.session_options(threads=INTRA_OP_THREADS)
    options.enable_cpu_mem_arena = not UNDER_TSAN
    sessions = [ort.inference_session(model.SerializeToString(), options) for _ in range(1 if shared else THREADS)]
    return sessions * (THREADS // len(sessions))


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("shared", [True, False], ids=["one session", "eight sessions"])
def test_runs_side_by_side_give_the_same_bytes(name: str, shared: bool) -> None:
    op, inputs, options = OPERATORS[name]
    model = one_node(op, inputs, **options)
    sessions = opened(model, shared)
    feeds = {f"x{index}": x for index, x in enumerate(inputs) if x.dtype != BFLOAT16}
    expected = sessions[0].run(None, feeds)[0].tobytes()

    def runs(index: int) -> bool:
        return all(sessions[index].run(None, feeds)[0].tobytes() == expected for _ in range(RUNS))

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(runs, range(THREADS)))


@pytest.mark.parametrize("shared", [True, False], ids=["one session", "eight sessions"])
def test_observers_share_a_collector(shared: bool) -> None:
    collector = _core.Collector(1)
    model = one_node("Observe", [X], domain="quarkfast", collector=collector.id, slot=0)
    sessions = opened(model, shared)

    def runs(index: int) -> None:
        for _ in range(RUNS):
            sessions[index].run(None, {"x0": X})

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(runs, range(THREADS)))
    assert collector.range(0)["count"] == THREADS * RUNS * X.size
