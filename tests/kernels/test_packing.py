"""Packed codes are the reference's stream of bits, ONNX's raw data, and what onnxruntime's MatMulNBits reads."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import quarkfast
from conftest import SIZES
from quarkfast import reference
from quarkfast.formats.scalar import qtype

TYPES = (("int2", 2), ("uint2", 2), ("int4", 4), ("uint4", 4), *((t, b) for t in ("int8", "uint8") for b in (2, 3, 4)))
CANARY = 0x5A


def codes_of(rng: np.random.Generator, dtype: str, bits: int, shape: object) -> np.ndarray:
    low = -(1 << (bits - 1)) if dtype.startswith("i") else 0
    return rng.integers(low, low + (1 << bits), shape).astype(np.int8).astype(qtype(dtype).dtype)


@pytest.mark.parametrize(("dtype", "bits"), TYPES)
def test_packing_equals_the_reference_and_comes_back(isa, rng, dtype, bits):
    for n in SIZES:
        buffer = np.zeros(n + 3, qtype(dtype).dtype)
        buffer[3:] = codes_of(rng, dtype, bits, n)
        out = np.full(n * bits // 8 + 9, CANARY, np.uint8)
        size = -(-n * bits // 8)
        packed = quarkfast.pack_codes(buffer[3:], bits=bits, out=out[5 : 5 + size])
        np.testing.assert_array_equal(packed, reference.pack_codes(buffer[3:], bits))
        assert (np.delete(out, range(5, 5 + size)) == CANARY).all()
        back = quarkfast.unpack_codes(packed, dtype, n, bits=bits)
        assert back.dtype == qtype(dtype).dtype
        np.testing.assert_array_equal(back, buffer[3:])
        signed = dtype.startswith("i")
        np.testing.assert_array_equal(
            back.astype(np.int8), reference.unpack_codes(packed, n, bits, signed).astype(np.int8)
        )


@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4"])
def test_packing_is_the_raw_data_of_onnx(rng, dtype):
    codes = codes_of(rng, dtype, qtype(dtype).bits, (5, 7))
    tensor = numpy_helper.from_array(codes)
    assert tensor.data_type == qtype(dtype).onnx
    assert quarkfast.pack_codes(codes).tobytes() == tensor.raw_data
    np.testing.assert_array_equal(
        quarkfast.unpack_codes(np.frombuffer(tensor.raw_data, np.uint8), dtype, (5, 7)), codes
    )


@pytest.mark.parametrize(("dtype", "bits"), [("int4", 4), ("uint8", 3), ("int2", 2)])
def test_threads_do_not_change_a_byte(isa, rng, dtype, bits):
    codes = codes_of(rng, dtype, bits, 600_003)
    before = quarkfast.num_threads()
    try:
        for threads in (1, 2, 3):
            quarkfast.set_num_threads(threads)
            packed = quarkfast.pack_codes(codes, bits=bits)
            np.testing.assert_array_equal(packed, reference.pack_codes(codes, bits))
            np.testing.assert_array_equal(quarkfast.unpack_codes(packed, dtype, codes.size, bits=bits), codes)
    finally:
        quarkfast.set_num_threads(before)


def test_a_code_that_does_not_fit_is_refused_wherever_it_is(isa):
    for bits in (2, 3, 4):
        for dtype, bad in (("int8", 1 << (bits - 1)), ("int8", -(1 << (bits - 1)) - 1), ("uint8", 1 << bits)):
            for n in (1, 8, 100, 103):
                for at in {0, n // 2, n - 1}:
                    codes = np.zeros(n, dtype)
                    codes[at] = bad
                    with pytest.raises(ValueError, match=rf"x: expected codes in \[.*, got \[.*{bad}"):
                        quarkfast.pack_codes(codes, bits=bits)


def test_unused_bits_of_a_byte_do_not_reach_the_packed_codes(isa):
    import ml_dtypes

    dirty = np.uint8([0xF1, 0x02]).view(ml_dtypes.int4)
    assert quarkfast.pack_codes(dirty).tolist() == [0x21]


def test_a_strided_array_is_packed_in_its_own_order(isa, rng):
    codes = codes_of(rng, "int8", 4, (6, 10))
    np.testing.assert_array_equal(
        quarkfast.pack_codes(codes.T, bits=4), quarkfast.pack_codes(np.ascontiguousarray(codes.T), bits=4)
    )


def matmul_nbits(packed: quarkfast.MatMulNBits, x: np.ndarray, n: int, block: int, bits: int) -> np.ndarray:
    """Run onnxruntime's operator on packed weights."""
    k = x.shape[1]
    node = helper.make_node(
        "MatMulNBits", ["x", "b", "s", "z"], ["y"], domain="com.microsoft", K=k, N=n, bits=bits, block_size=block
    )
    weights = [numpy_helper.from_array(a, name) for a, name in zip(packed, ("b", "s", "z"), strict=True)]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (x.shape[0], n))],
        weights,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("with_zero_point", [False, True], ids=["symmetric", "zero-point"])
@pytest.mark.parametrize(("k", "n", "block"), [(64, 8, 32), (70, 5, 16), (129, 3, 64), (16, 1, 16), (300, 7, 128)])
@pytest.mark.parametrize(("dtype", "bits"), [("int4", 4), ("uint4", 4), ("int2", 2), ("uint2", 2), ("int8", 8)])
def test_onnxruntime_multiplies_by_the_weights_that_were_packed(rng, dtype, bits, k, n, block, with_zero_point):
    codes = codes_of(rng, dtype, bits, (k, n))
    blocks = -(-k // block)
    scale = np.exp2(rng.integers(-3, 3, (blocks, n))).astype(np.float32)
    zero = codes_of(rng, dtype, bits, (blocks, n)) if with_zero_point else None
    packed = quarkfast.pack_matmul_nbits(codes, scale, zero, block_size=block, bits=bits)
    weight = quarkfast.dequantize_linear(codes, scale, zero, axis=0, block_size=block)
    # The identity reads the weights out, one product a sum, so the result is exact.
    np.testing.assert_array_equal(matmul_nbits(packed, np.eye(k, dtype=np.float32), n, block, bits), weight)
    shift = 1 << (bits - 1) if dtype.startswith("i") else 0
    back, scales, zeros = quarkfast.unpack_matmul_nbits(packed, k, block_size=block, bits=bits)
    np.testing.assert_array_equal(back, codes.astype(np.int16) + shift)
    np.testing.assert_array_equal(scales, scale)
    np.testing.assert_array_equal(zeros, (0 if zero is None else zero.astype(np.int16)) + np.full((blocks, n), shift))


Q = np.zeros((4, 2), np.int8)
S = np.ones((1, 2), np.float32)
PACKED = quarkfast.pack_matmul_nbits(Q, S, block_size=16)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: quarkfast.pack_codes(Q.astype(np.int16), bits=4), TypeError, "codes of at most 8 bits, got int16"),
        (lambda: quarkfast.pack_codes(Q.astype(np.float32)), TypeError, "expected one of"),
        (lambda: quarkfast.pack_codes(Q), ValueError, "bits: expected 2, 3 or 4 for int8, got None"),
        (lambda: quarkfast.pack_codes(Q.astype("int4"), bits=3), ValueError, "bits: expected 4 for int4, got 3"),
        (lambda: quarkfast.pack_codes(Q, bits=4, out=np.empty(5, np.uint8)), ValueError, r"out: expected shape \(4,\)"),
        (
            lambda: quarkfast.pack_codes(Q, bits=4, out=Q.reshape(-1).view(np.uint8)[:4]),
            ValueError,
            "out: expected memory apart from x, got arrays that overlap",
        ),
        (lambda: quarkfast.unpack_codes(Q, "int4", 8), TypeError, "x: expected dtype uint8, got int8"),
        (lambda: quarkfast.unpack_codes(np.zeros(3, np.uint8), "int4", 8), ValueError, "expected 4 bytes .* got 3"),
        (lambda: quarkfast.pack_matmul_nbits(Q, S, block_size=8), ValueError, "block_size: expected a power of two"),
        (lambda: quarkfast.pack_matmul_nbits(Q, S, block_size=48), ValueError, "got 48"),
        (lambda: quarkfast.pack_matmul_nbits(Q, S, block_size=1 << 17), ValueError, "from 16 to 65536, got 131072"),
        (lambda: quarkfast.pack_matmul_nbits(Q, S, block_size=16, bits=3), ValueError, "bits: expected 2, 4 or 8"),
        (lambda: quarkfast.pack_matmul_nbits(Q[0], S, block_size=16), ValueError, r"codes: expected shape \[K, N\]"),
        (lambda: quarkfast.pack_matmul_nbits(Q, S[0], block_size=16), ValueError, r"scale: expected shape \(1, 2\)"),
        (
            lambda: quarkfast.pack_matmul_nbits(Q, S, Q, block_size=16),
            ValueError,
            r"zero_point: expected int8 of shape \(1, 2",
        ),
        (
            lambda: quarkfast.pack_matmul_nbits(Q + 8, S, block_size=16),
            ValueError,
            r"4-bit codes, got \[8, 8\] of int8",
        ),
        (
            lambda: quarkfast.unpack_matmul_nbits(quarkfast.pack_matmul_nbits(Q, S, block_size=16), 40, block_size=16),
            ValueError,
            r"weight: expected shape \(2, 3, 8\), got \(2, 1, 8\)",
        ),
        (lambda: quarkfast.pack_matmul_nbits(Q, S, block_size=16.0), TypeError, "block_size: expected an integer"),
        (lambda: quarkfast.pack_matmul_nbits(Q, S.astype("f8"), block_size=16), TypeError, "expected float32 or float"),
        (lambda: quarkfast.unpack_matmul_nbits((Q, S, Q), 4, block_size=16), TypeError, "packed: expected a MatMulNBi"),
        (lambda: quarkfast.unpack_matmul_nbits(PACKED, -1, block_size=16), ValueError, "k: expected 0 or more, got -1"),
        (
            lambda: quarkfast.unpack_matmul_nbits(PACKED._replace(zero_point=S), 4, block_size=16),
            TypeError,
            "zero_point: expected dtype uint8, got float32",
        ),
        (
            lambda: quarkfast.unpack_matmul_nbits(PACKED._replace(scale=S[:, :1]), 4, block_size=16),
            ValueError,
            "packed: expected 2 scales and 2 bytes of zero points, got 1 and 2",
        ),
    ],
)
def test_bad_arguments_meet_a_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_model_with_packed_weights_passes_the_checker(rng):
    codes = codes_of(rng, "int4", 4, (3, 5))
    tensor = TensorProto(
        name="w", data_type=TensorProto.INT4, dims=(3, 5), raw_data=quarkfast.pack_codes(codes).tobytes()
    )
    onnx.checker.check_tensor(tensor)
    np.testing.assert_array_equal(numpy_helper.to_array(tensor), codes)
