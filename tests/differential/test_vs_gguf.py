"""Blocks of GGUF against the gguf package, and those of super-blocks against llama.cpp: the same bytes and values."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quarkfast
from quarkfast.kernels.gguf import GGUF_TYPES

gguf = pytest.importorskip("gguf")


def rows(rng: np.random.Generator) -> dict[str, Any]:
    """Finite values whose scales float16 holds. The package leaves open what becomes of others."""
    shape = (64, 1024)
    normal = rng.standard_normal(shape)
    return {
        "normal": normal,
        "of all sizes": normal * 10.0 ** rng.integers(-30, 4, (64, 1)),
        "of any size within a block": normal * 10.0 ** rng.integers(-8, 4, shape),
        "of few levels": rng.integers(-9, 10, shape) / 16,
        "positive": np.abs(normal),
        # Zeros of one sign: which of two the package takes for a minimum depends on NumPy's build.
        "mostly zero": normal * (rng.random(shape) < 0.05) + 0.0,
        "zeros": np.zeros(shape),
        "one": np.ones(shape),
    }


# The package has no encoder of super-blocks.
@pytest.mark.parametrize("name", [name for name, size in GGUF_TYPES.items() if size.values == 32])
def test_records_are_those_of_the_package(isa: str, rng: np.random.Generator, name: str) -> None:
    for kind, x in rows(rng).items():
        told = gguf.quants.quantize(x.astype(np.float32), gguf.GGMLQuantizationType[name])
        np.testing.assert_array_equal(quarkfast.quantize_gguf(x.astype(np.float32), name), told, err_msg=kind)


@pytest.mark.parametrize("name", GGUF_TYPES)
def test_values_are_those_of_the_package(isa: str, rng: np.random.Generator, name: str) -> None:
    records = rng.integers(0, 256, (3000, GGUF_TYPES[name].bytes), np.uint8)
    with np.errstate(invalid="ignore"):
        told = gguf.quants.dequantize(records, gguf.GGMLQuantizationType[name])
    got = quarkfast.dequantize_gguf(records, name)
    np.testing.assert_array_equal(got, told)
    numbers = ~np.isnan(told)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(told)[numbers])


@pytest.mark.parametrize("name", GGUF_TYPES)
def test_sizes_are_those_of_the_package(name: str) -> None:
    assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]] == GGUF_TYPES[name]


def _llama_cpp() -> Any:
    """llama.cpp's library in the xllamacpp package, whose quantizers it exports."""
    found = importlib.util.find_spec("xllamacpp")
    if found is None or not found.submodule_search_locations:
        pytest.skip("xllamacpp is not installed")
    (library,) = Path(found.submodule_search_locations[0]).glob("*.so")
    return ctypes.PyDLL(str(library))


@pytest.mark.parametrize("name", ["Q4_K", "Q6_K"])
def test_records_of_super_blocks_are_those_of_llama_cpp(isa: str, rng: np.random.Generator, name: str) -> None:
    function = getattr(_llama_cpp(), f"quantize_row_{name[:2].lower()}_K_ref")
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64], None
    for kind, values in rows(rng).items():
        x = np.ascontiguousarray(values, np.float32)
        told = np.empty((64, 1024 // 256 * GGUF_TYPES[name].bytes), np.uint8)
        function(x.ctypes.data, told.ctypes.data, x.size)
        np.testing.assert_array_equal(quarkfast.quantize_gguf(x, name), told, err_msg=kind)
