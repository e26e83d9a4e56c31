"""DequantizeBlock on integer codes with a scale for each block: the values of linear quantization, from fewer bytes."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import quarkfast
from quarkfast import reference
from quarkfast.errors import ModelError
from quarkfast.formats.scalar import qtype

from .models import Array, one_node, run, session

# dtype and bits: every width that records know, in every type that holds it.
WIDTHS = [(name, qtype(name).bits) for name in ("int2", "uint2", "int4", "uint4", "int8", "uint8")]
WIDTHS += [(name, bits) for name in ("int8", "uint8") for bits in (2, 3, 4)]
BLOCK = 16


def quantized(
    rng: np.random.Generator, name: str, bits: int, axis: int, asymmetric: bool
) -> tuple[Array, Array, Array | None, Array]:
    """Codes, scales and zero points of random values, and these values after fake quantization."""
    row = qtype(name)
    signed = row.signed
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    x = rng.standard_normal((5, 37, 9)).astype(np.float32)
    shape = list(x.shape)
    shape[axis] = -(-shape[axis] // BLOCK)
    scale = rng.uniform(0.01, 0.7, shape).astype(np.float32)
    zero = rng.integers(low, high, shape, endpoint=True).astype(row.dtype) if asymmetric else None
    settings: dict[str, Any] = {"dtype": name, "axis": axis, "block_size": BLOCK}
    if bits < row.bits:
        # quantize_linear knows no code range beside a zero point, so codes are cut to the width here.
        codes = np.clip(quarkfast.quantize_linear(x, scale, zero, **settings).astype(np.int16), low, high)
        codes = codes.astype(row.dtype)
        return codes, scale, zero, quarkfast.dequantize_linear(codes, scale, zero, axis=axis, block_size=BLOCK)
    codes = quarkfast.quantize_linear(x, scale, zero, **settings)
    return codes, scale, zero, quarkfast.fake_quantize_linear(x, scale, zero, **settings)


def attributes_of(name: str, bits: int, axis: int, length: int, asymmetric: bool) -> dict[str, Any]:
    """Attributes of the operator that reads such records."""
    signed = int(qtype(name).signed)
    chosen = {"bits": bits, "signed": signed, "has_zero_point": int(asymmetric), "block_size": BLOCK}
    return {"format": "linear", "axis": axis, "length": length, **chosen}


@pytest.mark.parametrize(("name", "bits"), WIDTHS, ids=str)
@pytest.mark.parametrize("axis", [0, 1, -1], ids=lambda axis: f"axis={axis}")
@pytest.mark.parametrize("asymmetric", [False, True], ids=["symmetric", "zero points"])
def test_packed_codes_give_the_bytes_of_the_fake_quantized_form(
    rng: np.random.Generator, name: str, bits: int, axis: int, asymmetric: bool
) -> None:
    codes, scale, zero, expected = quantized(rng, name, bits, axis, asymmetric)
    records = quarkfast.pack_linear_blocks(codes, scale, zero, axis=axis, block_size=BLOCK, bits=bits)
    assert records.tobytes() == reference.pack_linear_blocks(codes, scale, zero, axis, BLOCK, bits).tobytes()
    attributes = attributes_of(name, bits, axis, codes.shape[axis], asymmetric)
    for constants in ((0,), ()):
        y = run("DequantizeBlock", records, np.zeros((), "f4"), domain="quarkfast", constants=constants, **attributes)
        assert (y.shape, y.tobytes()) == (expected.shape, expected.tobytes())
    told = reference.dequantize_linear_blocks(
        records, codes.shape[axis], axis, BLOCK, bits, bool(attributes["signed"]), asymmetric
    )
    assert np.ascontiguousarray(told).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_results_are_rounded_once(rng: np.random.Generator, dtype: str) -> None:
    codes, scale, zero, expected = quantized(rng, "int4", 4, -1, asymmetric=True)
    records = quarkfast.pack_linear_blocks(codes, scale, zero, block_size=BLOCK)
    like = np.zeros((), getattr(ml_dtypes, dtype, dtype))
    attributes = attributes_of("int4", 4, -1, 9, asymmetric=True)
    y = run("DequantizeBlock", records, like, output=like.dtype, domain="quarkfast", constants=(0,), **attributes)
    assert y.tolist() == expected.astype(like.dtype).astype(y.dtype).tolist()


def test_a_record_is_as_small_as_its_codes_and_scale() -> None:
    codes, scale = np.zeros((64, 256), ml_dtypes.int4), np.ones((64, 8), np.float32)
    assert quarkfast.pack_linear_blocks(codes, scale).nbytes * 8 / codes.size == 4 + 32 / 32


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan], ids=str)
@pytest.mark.parametrize("constant", [True, False], ids=["with the session", "when it runs"])
def test_a_stored_scale_that_is_no_scale_is_refused(scale: float, constant: bool) -> None:
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

    records = quarkfast.pack_linear_blocks(np.zeros((3, 32), ml_dtypes.int4), np.ones((3, 1), np.float32))
    records[2, 0, :4] = np.float32([scale]).view(np.uint8)
    held = (0,) if constant else ()
    attributes = {"format": "linear", "length": 32}
    with pytest.raises(ModelError if constant else InvalidArgument) as caught:
        run("DequantizeBlock", records, np.zeros((), "f4"), domain="quarkfast", constants=held, **attributes)
    sentence = "quarkfast.DequantizeBlock 'node': records: expected finite scales greater than 0, got "
    assert sentence in str(caught.value)
    assert "in record 2" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"bits": 5}, "attribute bits: expected 2, 3, 4 or 8, got 5"),
        ({"bits": 1 << 40}, "attribute bits: expected 2, 3, 4 or 8, got 2147483647"),
        ({"block_size": 12}, "attribute block_size: expected a multiple of 8 up to 256 for packed storage, got 12"),
        ({"block_size": 0}, "attribute 'block_size': expected 1 or more, got 0"),
        ({"has_zero_point": 1}, "records: expected shape (..., 1, 21) for 32 elements along the axis, got (3, 1, 20)"),
    ],
    ids=str,
)
def test_choices_that_do_not_fit_the_records_are_rejected_with_the_session(
    changes: dict[str, int], sentence: str
) -> None:
    records = quarkfast.pack_linear_blocks(np.zeros((3, 32), ml_dtypes.int4), np.ones((3, 1), np.float32))
    attributes = {"format": "linear", "length": 32} | changes
    model = one_node(
        "DequantizeBlock", [records, np.zeros((), "f4")], domain="quarkfast", constants=(0, 1), **attributes
    )
    with pytest.raises(ModelError) as caught:
        session(model)
    assert f"quarkfast.DequantizeBlock 'node': {sentence}" in str(caught.value)


Q = np.zeros((2, 32), np.int8)
S = np.ones((2, 1), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: quarkfast.pack_linear_blocks(Q.astype("i2"), S), TypeError, "at most 8 bits, got int16"),
        (lambda: quarkfast.pack_linear_blocks(Q, S, bits=5), ValueError, "expected 2, 3, 4 or 8 for int8, got 5"),
        (lambda: quarkfast.pack_linear_blocks(Q.astype("int4"), S, bits=3), ValueError, "expected 4 for int4, got 3"),
        (lambda: quarkfast.pack_linear_blocks(Q, S, axis=2), ValueError, "an axis of a tensor of rank 2, got 2"),
        (lambda: quarkfast.pack_linear_blocks(Q, S, block_size=20), ValueError, "a multiple of 8 up to 256"),
        (lambda: quarkfast.pack_linear_blocks(Q, S.astype("f8")), TypeError, "expected dtype float32, got float64"),
        (lambda: quarkfast.pack_linear_blocks(Q, S[:1]), ValueError, r"scale: expected shape \(2, 1\), got \(1, 1\)"),
        (lambda: quarkfast.pack_linear_blocks(Q, S * 0), ValueError, "finite values greater than 0, got 0.0"),
        (lambda: quarkfast.pack_linear_blocks(Q, S, Q), ValueError, r"zero_point: expected int8 of shape \(2, 1\)"),
        (lambda: quarkfast.pack_linear_blocks(Q + 9, S, bits=4), ValueError, r"codes in \[-8, 7\]"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_with_a_sentence(call: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        call()
