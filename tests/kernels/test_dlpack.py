"""Tensors of other libraries in and out by DLPack, without importing any."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import quarkfast
from quarkfast.kernels.dlpack import from_dlpack, to_dlpack

DTYPES = [
    *("int8", "uint8", "int16", "uint16", "int32", "int64", "float16", "float32", "float64", "bool"),
    *("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
]


class Tensor:
    """A tensor of another library: nothing but the exchange."""

    def __init__(self, array: Any, device: int = 1) -> None:
        self.exported, self.device = to_dlpack(array), device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self) -> Any:
        return self.exported.__dlpack__()


@pytest.mark.parametrize("name", DTYPES)
def test_an_array_comes_back_with_the_same_memory(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    x = np.arange(1, 25).reshape(2, 3, 4).astype(dtype)
    for given in (x, x.transpose(2, 0, 1)[::2], x[:, 1], np.asfortranarray(x), x[0, 0, :1].reshape(())):
        back = from_dlpack(to_dlpack(given))
        assert (back.dtype, back.shape) == (dtype, given.shape)
        assert np.shares_memory(back, given)
        np.testing.assert_array_equal(back, given)
    assert from_dlpack(to_dlpack(np.zeros((0, 3), dtype))).shape == (0, 3)


def test_memory_lives_as_long_as_the_view() -> None:
    view = from_dlpack(to_dlpack(np.full(1 << 16, 3, np.float32)))
    gc.collect()
    assert view.sum() == 3 << 16


def test_kernels_take_tensors_for_inputs_and_scales(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 32)).astype(ml_dtypes.bfloat16)
    scale = np.float32([0.1, 0.2, 0.3, 0.4])
    told = quarkfast.quantize_linear(x, scale, axis=0)
    np.testing.assert_array_equal(quarkfast.quantize_linear(Tensor(x), Tensor(scale), axis=0), told)
    np.testing.assert_array_equal(quarkfast.quantize_gguf(Tensor(x), "Q4_0"), quarkfast.quantize_gguf(x, "Q4_0"))
    np.testing.assert_array_equal(quarkfast.cast(Tensor(x), "float32"), x.astype(np.float32))
    assert quarkfast.reduce_range(Tensor(x)) == quarkfast.reduce_range(x)


def test_a_view_serves_as_output(rng: np.random.Generator) -> None:
    x, memory = rng.standard_normal(100).astype(np.float32), np.zeros(100, ml_dtypes.bfloat16)
    quarkfast.cast(x, "bfloat16", out=from_dlpack(Tensor(memory)))
    np.testing.assert_array_equal(memory, x.astype(ml_dtypes.bfloat16))


def test_memory_of_another_device_is_refused() -> None:
    x = np.zeros(3, np.float32)
    message = "reduce_range: x: expected memory of the CPU, got device type 2; copy it there first"
    with pytest.raises(ValueError, match=message):
        quarkfast.reduce_range(Tensor(x, device=2))


def test_what_its_library_does_not_export_is_refused() -> None:
    class Graph(Tensor):
        def __dlpack__(self) -> Any:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

    with pytest.raises(ValueError, match=r"reduce_range: x: expected a tensor that DLPack exports, got: .*detach"):
        quarkfast.reduce_range(Graph(np.zeros(3, np.float32)))


def test_other_types_are_refused_both_ways() -> None:
    with pytest.raises(TypeError, match="from_dlpack: x: expected a tensor with __dlpack__, got 3"):
        from_dlpack(3)
    with pytest.raises(TypeError, match="expected a DLPack type that NumPy or ml_dtypes have, got code 5 of 64 bits"):
        from_dlpack(np.zeros(2, np.complex64))
    with pytest.raises(TypeError, match=r"to_dlpack: x: expected an array, got \[1\]"):
        to_dlpack([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="to_dlpack: x: expected a type that DLPack has, got int4"):
        to_dlpack(np.zeros(2, ml_dtypes.int4))
    frozen = np.zeros(2, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="to_dlpack: x: expected a writeable array, got a read-only one"):
        to_dlpack(frozen)


def test_torch_is_not_imported_and_its_tensors_are_taken() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(8, 32).to(torch.bfloat16)
    told = quarkfast.quantize_linear(x.float().numpy(), 0.1)
    np.testing.assert_array_equal(quarkfast.quantize_linear(x, 0.1), told)
    made = torch.from_dlpack(to_dlpack(quarkfast.cast(x.float(), "bfloat16")))
    assert made.dtype == torch.bfloat16
    assert torch.equal(made, x)
    with pytest.raises(ValueError, match="expected a tensor that DLPack exports"):
        quarkfast.reduce_range(x.float().requires_grad_())


def test_the_exchange_imports_no_other_library() -> None:
    code = "import quarkfast.kernels.dlpack, sys; print([n for n in ('torch', 'jax', 'cupy') if n in sys.modules])"
    program = f"import sys; sys.path[:] = {sys.path!r}; {code}"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "[]"
