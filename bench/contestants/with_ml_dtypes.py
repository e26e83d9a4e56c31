"""ml_dtypes: casting copies between preallocated arrays of its NumPy types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from bench.contestants.with_numpy import copies
from bench.operations import NV_SCALE
from bench.workload import Entry, Workload

NAME = "ml_dtypes"
EXACT = True
HAS_THREADS = False


def _copied(*dtypes: str) -> Any:
    def setup(work: Workload, threads: int) -> Entry | None:
        return None if work.task.type == "float16" else copies(work, dtypes)

    return setup


def _nvfp4(work: Workload, threads: int) -> Entry:
    """NVFP4 as a user of NumPy and ml_dtypes writes it: scales in e4m3, codes in float4, two to a byte."""
    blocks = work.x.reshape(-1, 16)
    made: list[Any] = []

    def run() -> None:
        scales = (np.abs(blocks).max(axis=1, keepdims=True) / np.float32(6) / NV_SCALE).astype(ml_dtypes.float8_e4m3fn)
        codes = (blocks / (scales.astype(np.float32) * NV_SCALE)).astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
        made[:] = [codes[:, ::2] | codes[:, 1::2] << 4]

    return Entry(run, lambda: made[0])


SETUPS = {
    "quantize_nvfp4": _nvfp4,
    "cast": _copied("type"),
    "widen": _copied("float32"),
    "round_trip": _copied("type", "float32"),
}
