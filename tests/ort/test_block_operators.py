"""BFPQuantizeDequantize, MXQuantizeDequantize and DequantizeBlock against Quark's recorded answers and the kernels."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import quarkfast
from conftest import float_bits
from golden.vectors import Case, bits, cases, formats
from quarkfast.errors import ModelError

from .models import Array, one_node, run, session

OLDER = {"BFPQuantizeDequantize": "BFPFixNeuron", "MXQuantizeDequantize": "MXFixNeuron"}
RECORDED = [pytest.param(c, id=f"{f}-{c.name}") for f in formats() if f.startswith(("bfp", "mx")) for c in cases(f)]
MX_ELEMENTS = ["fp8_e5m2", "fp8_e4m3", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "int8"]


@pytest.mark.parametrize("case", RECORDED)
def test_the_bits_are_those_of_quark(case: Case) -> None:
    (x,) = case.inputs
    for op, domain in ((case.operator, "com.amd.quark"), (OLDER[case.operator], "com.vai.quantize")):
        y = run(op, x, output=x.dtype, domain=domain, **case.attributes)
        assert (bits(y) == bits(case.output)).all()


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3], ids=lambda axis: f"axis={axis}")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_blocks_run_along_the_axis(rng: np.random.Generator, axis: int, dtype: str, isa: str) -> None:
    with np.errstate(all="ignore"):
        x = float_bits(rng, 5 * 37 * 9).reshape(5, 37, 9).astype(getattr(ml_dtypes, dtype, dtype))
    y = run("MXQuantizeDequantize", x, output=x.dtype, element_dtype="fp6_e2m3", axis=axis)
    expected = quarkfast.fake_quantize_mx(x, "fp6_e2m3", axis=axis)
    assert y.tobytes() == expected.astype(y.dtype).tobytes()
    y = run("BFPQuantizeDequantize", x, output=x.dtype, axis=axis, rounding_mode=2)
    expected = quarkfast.fake_quantize_bfp(x, axis=axis)
    assert y.tobytes() == expected.astype(y.dtype).tobytes()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_round_to_bfloat16_may_come_first_and_leaves_the_input_alone(
    rng: np.random.Generator, dtype: str, axis: int
) -> None:
    x = np.clip(rng.standard_normal((40, 100)) * 3e4, -65504, 65504).astype(dtype)
    before = x.tobytes()
    y = run("BFPQuantizeDequantize", x, output=x.dtype, convert_to_bfloat_before_bfp=1, rounding_mode=2, axis=axis)
    rounded = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert x.tobytes() == before
    with np.errstate(over="ignore"):
        assert y.tobytes() == quarkfast.fake_quantize_bfp(rounded, axis=axis).astype(dtype).tobytes()


def test_a_single_value_passes() -> None:
    for shape in ((), (1,), (1, 1, 1)):
        x = np.full(shape, 1.2345678, np.float32)
        assert run("BFPQuantizeDequantize", x).tolist() == x.tolist()
        assert run("MXQuantizeDequantize", x).tolist() == x.tolist()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_single_value_passes_through_bfloat16_where_that_is_asked_for(dtype: str) -> None:
    x = np.full((1, 1), 1.2345678).astype(getattr(ml_dtypes, dtype, dtype))
    y = run("BFPQuantizeDequantize", x, output=x.dtype, convert_to_bfloat_before_bfp=1)
    assert y.tolist() == [[1.234375]]


def test_a_vector_has_only_one_axis() -> None:
    x = np.linspace(-1, 1, 40, dtype=np.float32)
    assert run("MXQuantizeDequantize", x, axis=7).tobytes() == quarkfast.fake_quantize_mx(
        x, "int8", rounding="half_away"
    ).tobytes()  # fmt: skip


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5, 2)], ids=str)
def test_tensors_without_elements_stay_empty(shape: tuple[int, ...]) -> None:
    assert run("BFPQuantizeDequantize", np.zeros(shape, np.float32), axis=0).shape == shape


@pytest.mark.parametrize("rank", range(1, 9))
def test_every_rank_works(rng: np.random.Generator, rank: int) -> None:
    x = rng.standard_normal((3,) * (rank - 1) + (5,)).astype(np.float32)
    for axis in range(-rank, rank):
        y = run("MXQuantizeDequantize", x, axis=axis, block_size=4)
        assert (
            y.tobytes()
            == quarkfast.fake_quantize_mx(x, "int8", axis=axis, block_size=4, rounding="half_away").tobytes()
        )


@pytest.mark.parametrize(
    ("op", "attributes", "sentence"),
    [
        ("BFP", {"bfp_method": "to_bf"}, "attribute 'bfp_method': expected 'to_bfp' or 'to_bfp_prime', got 'to_bf'"),
        ("BFP", {"bit_width": 9}, "attribute bit_width: expected 10 to 31, got 9"),
        ("BFP", {"block_size": 0}, "attribute 'block_size': expected 1 or more, got 0"),
        ("BFP", {"block_size": -8}, "attribute 'block_size': expected 1 or more, got -8"),
        ("BFP", {"rounding_mode": 3}, "attribute rounding_mode: expected 0, 1 or 2, got 3"),
        ("BFP", {"axis": 2}, "attribute 'axis': expected -2 to 1, got 2"),
        ("BFP", {"axis": 0.5}, "attribute 'axis': expected an integer, got another type"),
        (
            "BFP",
            {"bfp_method": "to_bfp_prime", "sub_block_size": 3},
            "attribute sub_block_size: expected a divisor of block_size 8, got 3",
        ),
        (
            "BFP",
            {"bfp_method": "to_bfp_prime", "sub_block_shift_bits": 8},
            "attribute sub_block_shift_bits: expected 0 to 7, got 8",
        ),
        ("MX", {"element_dtype": "fp4"}, "attribute 'element_dtype': expected 'fp8_e5m2', 'fp8_e4m3', 'fp6_e3m2', "),
        ("MX", {"block_size": 0}, "attribute 'block_size': expected 1 or more, got 0"),
        ("MX", {"rounding_mode": -1}, "attribute rounding_mode: expected 0, 1 or 2, got -1"),
        ("MX", {"axis": -3}, "attribute 'axis': expected -2 to 1, got -3"),
    ],
    ids=str,
)
def test_choices_that_do_not_exist_are_rejected_with_the_session(
    op: str, attributes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ModelError) as caught:
        session(one_node(f"{op}QuantizeDequantize", [np.zeros((2, 3), np.float32)], **attributes))
    assert f"com.amd.quark.{op}QuantizeDequantize 'node': {sentence}" in str(caught.value)


def test_an_axis_that_does_not_exist_is_rejected_when_the_rank_is_known_only_then() -> None:
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

    with pytest.raises(InvalidArgument) as caught:
        run("MXQuantizeDequantize", np.zeros((2, 3), np.float32), shape=None, axis=2)
    assert "com.amd.quark.MXQuantizeDequantize 'node': attribute 'axis': expected -2 to 1, got 2" in str(caught.value)


PACKED: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "bfp16": (
        lambda x, axis: quarkfast.quantize_bfp(x, axis=axis),
        lambda x, axis: quarkfast.fake_quantize_bfp(x, axis=axis),
        {"format": "bfp"},
    ),
    **{
        name: (
            lambda x, axis, width=width: quarkfast.quantize_bfp_prime(x, axis=axis, bit_width=width),
            lambda x, axis, width=width: quarkfast.fake_quantize_bfp_prime(x, axis=axis, bit_width=width),
            {"format": "bfp_prime", "bit_width": width, "block_size": 16},
        )
        for name, width in (("mx4", 11), ("mx6", 13), ("mx9", 16))
    },
    **{
        f"mx {element}": (
            lambda x, axis, element=element: quarkfast.quantize_mx(x, element, axis=axis),
            lambda x, axis, element=element: quarkfast.fake_quantize_mx(x, element, axis=axis),
            {"format": "mx", "element_dtype": element},
        )
        for element in MX_ELEMENTS
    },
}


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("axis", [0, 1, -1], ids=lambda axis: f"axis={axis}")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_packed_values_are_those_of_the_rounded_form(
    rng: np.random.Generator, name: str, axis: int, dtype: str
) -> None:
    pack, round_trip, attributes = PACKED[name]
    x = rng.standard_normal((5, 37, 9)).astype(np.float32)
    like = np.zeros((), getattr(ml_dtypes, dtype, dtype))
    inputs = [pack(x, axis), like]
    y = run(
        "DequantizeBlock", *inputs, output=like.dtype, domain="quarkfast", constants=(0,), axis=axis,
        length=x.shape[axis], **attributes,
    )  # fmt: skip
    expected = round_trip(x, axis).astype(like.dtype).astype(y.dtype)
    assert y.tolist() == expected.tolist()  # a stored zero has no sign


NODE = "quarkfast.DequantizeBlock 'node': "


@pytest.mark.parametrize(
    ("shape", "changes", "sentence"),
    [
        (
            (2, 3, 9),
            {"length": 40},
            "records: expected shape (..., 5, 9) for 40 elements along the axis, got",
        ),
        ((2, 3, 8), {}, "records: expected shape (..., 3, 9) for 24 elements along the axis, got (2, 3, 8)"),
        ((9,), {}, "records: expected 2 or more dimensions, the last two being blocks and bytes, got 1"),
        ((2, 3, 9), {"length": -1}, "attribute 'length': expected 0 or more, got -1"),
        ((2, 3, 9), {"length": None}, "attribute 'length': expected an integer, got nothing"),
        ((2, 3, 9), {"axis": 2}, "attribute 'axis': expected -2 to 1, got 2"),
        ((2, 3, 9), {"format": "fp8"}, "attribute 'format': expected 'bfp', 'bfp_prime', 'mx' or 'linear', got 'fp8'"),
        ((2, 3, 9), {"format": None}, "attribute 'format': expected a string, got nothing"),
        ((2, 3, 9), {"bit_width": 17}, "attribute bit_width: expected 10 to 16 for packed storage, got 17"),
        (
            (2, 3, 9),
            {"block_size": 12},
            "attribute block_size: expected a multiple of 8 up to 256 for packed",
        ),
    ],
    ids=str,
)
def test_records_that_do_not_fit_are_rejected_with_the_session(
    shape: tuple[int, ...], changes: dict[str, Any], sentence: str
) -> None:
    records: Array = np.zeros(shape, np.uint8)
    attributes = {k: v for k, v in ({"format": "bfp", "length": 24} | changes).items() if v is not None}
    model = one_node(
        "DequantizeBlock", [records, np.zeros((), np.float32)], domain="quarkfast", constants=(0, 1), **attributes
    )
    with pytest.raises(ModelError) as caught:
        session(model)
    assert NODE + sentence in str(caught.value)
