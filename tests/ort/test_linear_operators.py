"""ExtendedQuantizeLinear and ExtendedDequantizeLinear against NumPy and against Quark's recorded answers."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from conftest import float_bits
from golden.vectors import Case, bits, cases
from quarkfast import reference
from quarkfast.errors import ModelError

from .models import Array, one_node, run, session

INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32")
FLOATS = ("float16", "bfloat16")
OPERATORS = {"com.amd.quark": "Extended", "com.vai.quantize": "Vitis"}


def recorded(prefix: str, formats: tuple[str, ...]) -> list[Any]:
    return [pytest.param(c, id=f"{f}-{c.name}") for f in formats for c in cases(f"{prefix}_{f}")]


def along(values: Array, axis: int | None, rank: int) -> Array:
    """Shape a vector of scales or zero points so that it broadcasts along an axis."""
    return values if axis is None else values.reshape([-1 if d == axis % rank else 1 for d in range(rank)])


def scalar(value: float, dtype: Any = np.float32) -> Array:
    return np.array(value, dtype)


def differs(y: Array, expected: Array) -> Array:
    return np.asarray(bits(y) != bits(expected))


@pytest.mark.parametrize("case", recorded("quantize", INTEGERS))
def test_integers_equal_quark_but_for_quotients_beyond_int64(case: Case) -> None:
    y = run("ExtendedQuantizeLinear", *case.inputs, output=case.output.dtype, **case.attributes)
    assert y.shape == case.output.shape
    beyond = case.inputs[0] > 2.0**62 if "nonfinite" in case.name else np.zeros(y.shape, bool)
    # the difference listed in docs/operators.md: Quark converts them out of range and gets the lowest code
    assert (case.output[beyond] == np.iinfo(y.dtype).min).all()
    assert (y[beyond] == np.iinfo(y.dtype).max).all()
    assert not differs(y, case.output)[~beyond].any()


@pytest.mark.parametrize("case", recorded("dequantize", INTEGERS))
def test_dequantized_integers_equal_quark(case: Case) -> None:
    y = run("ExtendedDequantizeLinear", *case.inputs, **case.attributes)
    assert not differs(y, case.output).any()


@pytest.mark.parametrize("case", recorded("quantize", ("bfloat16",)) + recorded("quantize", ("float16",))[:2])
def test_16_bit_floats_equal_quark_but_for_the_bits_of_nan(case: Case) -> None:
    y = run("ExtendedQuantizeLinear", *case.inputs, output=case.output.dtype, **case.attributes)
    expected = case.output.astype(y.dtype)  # a bfloat16 output arrives as float32, exactly
    assert (np.isnan(y) == np.isnan(expected)).all()
    assert not differs(y, expected)[~np.isnan(y)].any()


@pytest.mark.parametrize("case", recorded("dequantize", ("bfloat16",)) + recorded("dequantize", ("float16",))[:1])
def test_dequantized_16_bit_floats_equal_quark_but_for_the_bits_of_nan(case: Case) -> None:
    y = run("ExtendedDequantizeLinear", *case.inputs, **case.attributes)
    assert (np.isnan(y) == np.isnan(case.output)).all()
    assert not differs(y, case.output)[~np.isnan(y)].any()


@pytest.mark.parametrize("domain", OPERATORS)
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("axis", [None, 0, 1, -1, -3], ids=lambda axis: f"axis={axis}")
def test_integers_equal_the_reference(rng: np.random.Generator, domain: str, dtype: str, axis: int | None) -> None:
    x = float_bits(rng, 3 * 5 * 7).reshape(3, 5, 7)
    size = () if axis is None else (x.shape[axis],)
    scale = rng.uniform(1e-3, 2, size).astype(np.float32)
    zero_point = rng.integers(0, 100, size).astype(dtype)
    attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
    name = OPERATORS[domain]
    q = run(f"{name}QuantizeLinear", x, scale, zero_point, domain=domain, output=dtype, **attributes)
    s, z = along(scale, axis, x.ndim), along(zero_point, axis, x.ndim)
    assert q.tobytes() == reference.quantize_linear(x, s, z, dtype).tobytes()
    y = run(f"{name}DequantizeLinear", q, scale, zero_point, domain=domain, **attributes)
    assert y.tobytes() == reference.dequantize_linear(q, s, z).tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [None, 0, 2], ids=lambda axis: f"axis={axis}")
def test_16_bit_floats_are_scaled_shifted_and_rounded(
    rng: np.random.Generator, dtype: str, axis: int | None, isa: str
) -> None:
    x = np.clip(float_bits(rng, 3 * 5 * 7), -1e6, 1e6).reshape(3, 5, 7)
    size = () if axis is None else (x.shape[axis],)
    scale = rng.uniform(0.1, 2, size).astype(np.float32)
    zero_point = rng.standard_normal(size).astype(getattr(ml_dtypes, dtype, dtype))
    s, z = along(scale, axis, x.ndim), along(zero_point.astype(np.float32), axis, x.ndim)
    attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
    y = run("ExtendedQuantizeLinear", x, scale, zero_point, output=zero_point.dtype, **attributes)
    with np.errstate(all="ignore"):
        v = x / s + z
        expected = (np.clip(v, -65504, 65504) if dtype == "float16" else v).astype(zero_point.dtype)
    same = (y == expected.astype(y.dtype)) | (np.isnan(y) & np.isnan(v))
    assert same.all()
    back = run("ExtendedDequantizeLinear", expected, scale, zero_point, **attributes)
    assert np.array_equal(back, (expected.astype(np.float32) - z) * s, equal_nan=True)


def test_float16_saturates_and_bfloat16_overflows() -> None:
    x = np.float32([1e5, -1e5, np.inf, -np.inf, 3.4e38])
    one = scalar(1)
    assert run("ExtendedQuantizeLinear", x, one, scalar(0, np.float16), output=np.float16).tolist() == [
        65504, -65504, 65504, -65504, 65504,
    ]  # fmt: skip
    y = run("ExtendedQuantizeLinear", x, one, scalar(0, ml_dtypes.bfloat16), output=ml_dtypes.bfloat16)
    assert y[2:].tolist() == [np.inf, -np.inf, np.inf]


@pytest.mark.parametrize("rank", range(9))
def test_every_rank_works_with_static_dynamic_and_unknown_shapes(rng: np.random.Generator, rank: int) -> None:
    x = rng.standard_normal((2,) * rank).astype(np.float32)
    scale, zero_point = scalar(0.01), scalar(3, np.int8)
    expected = reference.quantize_linear(x, scale, zero_point, np.int8)
    for shape in ("static", ["n"] + [None] * (rank - 1) if rank else [], None):
        model = one_node(
            "ExtendedQuantizeLinear", [x, scale, zero_point], output=np.int8, shape=shape, constants=(1, 2)
        )
        (y,) = session(model).run(None, {"x0": x})
        assert y.tolist() == expected.tolist()


@pytest.mark.parametrize("shape", [(0,), (3, 0, 4), (0, 3)], ids=str)
def test_tensors_without_elements_stay_empty(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    scale, zero_point = np.ones(shape[0], np.float32), np.zeros(shape[0], np.uint8)
    q = run("ExtendedQuantizeLinear", x, scale, zero_point, output=np.uint8)
    assert q.shape == shape
    assert run("ExtendedDequantizeLinear", q, scale, zero_point).shape == shape


def test_large_tensors_are_the_same_on_one_thread_and_many(rng: np.random.Generator) -> None:
    x = rng.standard_normal((64, 64, 64)).astype(np.float32)
    scale, zero_point = scalar(0.01), scalar(3, np.int8)
    results = {
        run("ExtendedQuantizeLinear", x, scale, zero_point, output=np.int8, threads=threads).tobytes()
        for threads in (1, 2, 5)
    }
    assert results == {reference.quantize_linear(x, scale, zero_point, np.int8).tobytes()}


def test_the_output_has_the_inferred_type_and_shape() -> None:
    inputs = [np.zeros((2, 3), np.float32), scalar(1), scalar(0, np.uint16)]
    model = one_node("ExtendedQuantizeLinear", inputs, output=np.uint16, shape=["n", 3], constants=(1, 2))
    (output,) = session(model).get_outputs()
    assert (output.type, output.shape) == ("tensor(uint16)", ["n", 3])


NODE = "com.amd.quark.ExtendedQuantizeLinear 'node': "
X = np.zeros((2, 3), np.float32)


def rejection(*inputs: Array, **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        session(one_node("ExtendedQuantizeLinear", list(inputs), output=inputs[2].dtype, **options))
    return str(caught.value)


@pytest.mark.parametrize(
    ("scale", "shown"), [(0.0, "0.000000"), (-1.0, "-1.000000"), (np.nan, "nan"), (np.inf, "inf")], ids=str
)
def test_a_constant_scale_that_is_no_scale_is_rejected_with_the_session(scale: float, shown: str) -> None:
    text = rejection(X, np.float32([scale]), np.uint8([0]), constants=(1, 2))
    assert NODE + f"scale: expected finite values greater than 0, got {shown} at index 0" in text


def test_constants_that_do_not_fit_are_rejected_with_the_session() -> None:
    two, three = np.ones(2, np.float32), np.ones(3, np.float32)
    assert NODE + "zero_point: expected the shape of scale, (2,), got (3,)" in rejection(
        X, two, np.zeros(3, np.uint8), constants=(1, 2)
    )
    assert NODE + "scale: expected a scalar or a vector, got shape (2, 1)" in rejection(
        X, two.reshape(2, 1), np.zeros(2, np.uint8), constants=(1, 2)
    )
    assert NODE + "attribute 'axis': expected -2 to 1, got 2" in rejection(
        X, three, np.zeros(3, np.uint8), constants=(1, 2), axis=2
    )
    assert NODE + "attribute 'axis': expected an integer, got another type" in rejection(
        X, three, np.zeros(3, np.uint8), axis="1"
    )


def failure(*inputs: Array, **options: Any) -> str:
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

    with pytest.raises(InvalidArgument) as caught:
        run("ExtendedQuantizeLinear", *inputs, output=np.uint8, **options)
    return str(caught.value)


def test_inputs_that_do_not_fit_are_rejected_when_the_model_runs() -> None:
    two = np.ones(2, np.float32)
    zeros = np.zeros(2, np.uint8)
    assert NODE + "scale: expected 3 values, one for each index along axis -1 of x (2, 3), got 2" in failure(
        X, two, zeros, axis=-1
    )
    assert NODE + "zero_point: expected the shape of scale, (2,), got ()" in failure(X, two, scalar(0, np.uint8))
    assert NODE + "zero_point: expected the shape of scale, (), got (2,)" in failure(X, scalar(1), zeros)
    assert NODE + "scale: expected finite values greater than 0, got 0.000000 at index 1" in failure(
        X, np.float32([1, 0]), zeros
    )
    assert NODE + "attribute 'axis': expected -2 to 1, got -3" in failure(X, two, zeros, axis=-3, shape=None)
    assert NODE + "attribute 'axis': expected a tensor with at least one dimension, got a scalar" in failure(
        scalar(1), two, zeros
    )


def test_more_dimensions_than_anyone_has_are_rejected() -> None:
    text = failure(np.zeros((1,) * 17, np.float32), scalar(1), scalar(0, np.uint8))
    assert NODE + "shape: expected at most 16 dimensions, got 17" in text
