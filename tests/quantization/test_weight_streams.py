"""What streams make, piece by piece, against the same computed at once."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from quarkfast import kernels
from quarkfast.config import TensorSpec
from quarkfast.errors import ModelError
from quarkfast.quantization.weight_only.codes import channel_stream, group_stream, scales_of
from quarkfast.quantization.weight_only.layout import cast_stream
from quarkfast.quantization.weight_only.nbits import nbits_stream
from support.covering import in_pairs

# Where a tensor lies, and how many bytes of it are read at once: many pieces, and one.
SOURCES = list(product(["memory", "file"], [64, 1 << 20]))
SHAPES = [(40, 6), (6, 40), (3, 37, 5), (4, 3, 3, 3), (1, 300), (300, 1), (7, 1, 9)]


@pytest.fixture(params=SOURCES, ids=str)
def store(request, tmp_path, monkeypatch):
    """Returns a tensor of an array: in memory, or in a file behind bytes of something else."""
    where, size = request.param
    for module in ("graph.chunked_io", "quantization.weight_only.layout", "quantization.weight_only.nbits"):
        monkeypatch.setattr(f"quarkfast.{module}.PIECE_BYTES", size)
    monkeypatch.setattr("quarkfast.quantization.weight_only.nbits._SLAB_BYTES", 4 * size)

    def make(array):
        if where == "memory":
            return ir.tensor(array, name="w")
        Path(tmp_path, "data").write_bytes(b"before!" + array.tobytes() + b"behind")
        dtype, shape = ir.DataType.from_numpy(array.dtype), ir.Shape(array.shape)
        return ir.ExternalTensor("data", 7, array.nbytes, dtype, shape=shape, name="w", base_dir=tmp_path)

    return make


def _made(stream):
    return [np.asarray(stream.made(index).numpy()) for index in range(len(stream.outputs))]


def _codes(values, found, code, axis, size):
    """Returns codes of groups along `axis`; a negative scale is the magnitude for negated weights."""
    signs = np.take(np.sign(found.scale).repeat(size, axis), range(values.shape[axis]), axis)
    steps = np.abs(found.scale)
    return kernels.quantize_linear(values * signs, steps, found.zero_point, dtype=code, axis=axis, block_size=size)


@pytest.mark.parametrize(
    ("store", "shape", "code", "symmetric"),
    in_pairs(SOURCES, SHAPES, ["int8", "uint8", "int4", "int3"], [True, False]),
    indirect=["store"],
    ids=str,
)
def test_channels_are_those_of_the_whole_tensor(rng, store, shape, code, symmetric):
    values = rng.normal(size=shape).astype(np.float32)
    spec = TensorSpec(code, symmetric)
    for axis in (None, *range(len(shape))):
        others = tuple(each for each in range(len(shape)) if each != axis)
        low, high = values.min(axis=others), values.max(axis=others)
        found = scales_of(low, high, code, symmetric=symmetric)
        codes, scale, *zero = _made(channel_stream(store(values), "w", axis, spec))
        expected = kernels.quantize_linear(values, found.scale, found.zero_point, dtype=code, axis=axis or 0)
        np.testing.assert_array_equal(codes, expected)
        np.testing.assert_array_equal(scale, found.scale)
        assert scale.shape == found.scale.shape
        assert len(zero) == (not symmetric or code == "uint8")
        for each in zero:
            np.testing.assert_array_equal(each.astype(np.int64), found.zero_point)


@pytest.mark.parametrize(
    ("store", "shape", "code", "symmetric"),
    in_pairs(SOURCES, SHAPES, ["int3", "int4", "int8"], [True, False]),
    indirect=["store"],
    ids=str,
)
def test_groups_are_those_of_the_whole_tensor(rng, store, shape, code, symmetric):
    values = rng.normal(size=shape).astype(np.float32)
    spec = TensorSpec(code, symmetric, "group", group_size=16)
    for axis in range(len(shape)):
        low, high = (
            np.stack([each(part, axis) for part in np.split(values, range(16, shape[axis], 16), axis)], axis)
            for each in (np.min, np.max)
        )
        found = scales_of(low, high, code, symmetric=symmetric, mirrored=code != "int8")
        codes, scale, *zero = _made(group_stream(store(values), "w", axis, spec))
        np.testing.assert_array_equal(codes, _codes(values, found, code, axis, 16))
        np.testing.assert_array_equal(scale, found.scale)
        for each in zero:
            np.testing.assert_array_equal(each.astype(np.int64), found.zero_point)


@pytest.mark.parametrize(
    ("store", "shape", "size", "form"),
    in_pairs(
        SOURCES,
        [(40, 6), (64, 33), (300, 1), (1, 300), (512, 20)],
        [16, 64, 256],
        list(product([4, 8], [True, False], [True, False])),
    ),
    indirect=["store"],
    ids=str,
)
def test_nbits_are_those_that_the_kernel_packs(rng, store, shape, size, form):
    bits, transposed, symmetric = form
    k = shape[0]
    values = rng.normal(size=shape).astype(np.float32)
    spec, code = TensorSpec(f"int{bits}", symmetric, "group", group_size=size), f"uint{bits}"
    stored = store(np.ascontiguousarray(values.T) if transposed else values)
    weight, scale, *zero = _made(nbits_stream(stored, "w", spec, transposed=transposed))
    parts = np.split(values, range(size, k, size), 0)
    low, high = (np.stack([each(part, 0) for part in parts]) for each in (np.min, np.max))
    found = scales_of(low, high, code, symmetric=symmetric, mirrored=bits == 4)
    codes = _codes(values, found, code, 0, size)
    zeros = found.zero_point.astype(codes.dtype)
    packed = kernels.pack_matmul_nbits(codes, found.scale, zeros, block_size=size, bits=bits)
    np.testing.assert_array_equal(weight, packed.weight)
    np.testing.assert_array_equal(scale, packed.scale)
    assert len(zero) == (not symmetric)
    for each in zero:
        np.testing.assert_array_equal(each, packed.zero_point)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_scales_have_the_type_of_the_weights(rng, dtype):
    values = rng.normal(size=(64, 8)).astype(dtype)
    for stream in (
        channel_stream(ir.tensor(values, name="w"), "w", 1, TensorSpec("int8")),
        group_stream(ir.tensor(values, name="w"), "w", 0, TensorSpec("int4", group_size=32)),
        nbits_stream(ir.tensor(values, name="w"), "w", TensorSpec("int4", group_size=32), transposed=False),
    ):
        assert _made(stream)[1].dtype == dtype


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_casts_round_and_keep_infinity(rng, store, dtype):
    values = np.concatenate([rng.normal(size=400), [0, np.inf, -np.inf]]).astype(np.float32)
    notes: list[str] = []
    (made,) = _made(cast_stream(store(values), "w", dtype, notes))
    np.testing.assert_array_equal(made, kernels.cast(values, dtype))
    assert not notes


@pytest.mark.parametrize(("dtype", "limit"), [("bfloat16", 3.3895313892515355e38), ("float16", 65504.0)])
def test_finite_values_do_not_become_infinite(dtype, limit):
    values = np.float32([3.4e38, -3.4e38, 1, np.inf])
    notes: list[str] = []
    (made,) = _made(cast_stream(ir.tensor(values, name="w"), "w", dtype, notes))
    assert made.astype(np.float32).tolist() == [np.float32(limit), np.float32(-limit), 1, np.inf]
    assert notes == [f"tensor 'w': 2 values beyond {dtype} became {limit:g} or {-limit:g}"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers_are_named(value):
    values = np.ones((32, 4), np.float32)
    values[30, 3] = value
    tensor = ir.tensor(values, name="w")
    kind = "1 NaN and 0 infinite" if np.isnan(value) else "0 NaN and 1 infinite"
    for stream in (
        channel_stream(tensor, "w", 1, TensorSpec("int8")),
        group_stream(tensor, "w", 0, TensorSpec("int4", group_size=16)),
        nbits_stream(tensor, "w", TensorSpec("int4", group_size=16), transposed=False),
        nbits_stream(tensor, "w", TensorSpec("int4", group_size=16), transposed=True),
    ):
        with pytest.raises(ModelError, match=f"tensor 'w': expected finite weights, got {kind} values"):
            stream.made(0)


def test_a_cast_of_nan_is_refused():
    stream = cast_stream(ir.tensor(np.float32([1, np.nan]), name="w"), "w", "bfloat16", [])
    with pytest.raises(ModelError, match="tensor 'w': expected numbers, got NaN in 1 of 2 values"):
        stream.made(0)
