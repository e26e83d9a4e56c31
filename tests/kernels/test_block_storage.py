"""Packed block formats: the bytes of the reference, and unpacking gives what fake quantization gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import quarkfast
from quarkfast import reference

from .test_blocks import ELEMENTS, ROUNDINGS, bits, values


def _storages() -> dict[str, tuple[str, int, dict[str, Any], dict[str, Any]]]:
    """Every packed format: (family, block size, choices of layout, choices of rounding)."""
    found: dict[str, tuple[str, int, dict[str, Any], dict[str, Any]]] = {}
    for mode in ROUNDINGS:
        for block, width in ((8, 16), (16, 12), (256, 10)):
            for up in (False, True):
                name = f"bfp-{mode}-{'raise' if up else 'saturate'}-block{block}-width{width}"
                found[name] = ("bfp", block, {"bit_width": width}, {"rounding": mode, "raise_exponent": up})
        for title, width in (("mx4", 11), ("mx6", 13), ("mx9", 16)):
            found[f"{title}-{mode}"] = ("bfp_prime", 16, {"bit_width": width}, {"rounding": mode})
        found[f"mxint8-{mode}"] = ("mx", 32, {"element": "int8"}, {"rounding": mode})
    layout = {"bit_width": 14, "sub_block_size": 4, "shift_bits": 3}
    found["bfp_prime-block64-sub4-shift3"] = ("bfp_prime", 64, layout, {})
    for element in ELEMENTS[:-1]:
        found[f"mx-{element}"] = ("mx", 32, {"element": element}, {})
    return found


STORAGES = _storages()


def call(verb: str, name: str, *arguments: Any, **more: Any) -> np.ndarray:
    family, block, layout, _ = STORAGES[name]
    function: Callable[..., np.ndarray] = getattr(quarkfast, f"{verb}_{family}")
    return function(*arguments, block_size=block, **layout, **more)


@pytest.mark.parametrize("name", STORAGES)
def test_records_equal_the_reference_byte_for_byte(isa: str, rng: np.random.Generator, name: str) -> None:
    family, block, layout, rounding = STORAGES[name]
    x = values(rng, 256 * 80)
    told = getattr(reference, f"quantize_{family}")(x.reshape(-1, block), **layout, **rounding)
    np.testing.assert_array_equal(call("quantize", name, x, **rounding), told)


@pytest.mark.parametrize("name", STORAGES)
def test_any_record_is_read_as_the_reference_reads_it(isa: str, rng: np.random.Generator, name: str) -> None:
    family, block, layout, _ = STORAGES[name]
    width = call("quantize", name, np.zeros(block, np.float32)).shape[-1]
    records = rng.integers(0, 256, (3000, width), np.uint8)
    records[:256, 0] = np.arange(256)
    shifts = layout.get("shift_bits", 1)
    if family == "bfp_prime":  # an exponent below its largest shift cannot come from quantization
        records[records[:, 0] < 2**shifts, 0] = 2**shifts
    told = getattr(reference, f"dequantize_{family}")(records, block_size=block, **layout)
    np.testing.assert_array_equal(bits(call("dequantize", name, records, 3000 * block)), bits(told.reshape(-1)))


@pytest.mark.parametrize("name", STORAGES)
def test_unpacking_gives_what_fake_quantization_gives(isa: str, rng: np.random.Generator, name: str) -> None:
    family, _, _, rounding = STORAGES[name]
    rule = {"rule": "ocp"} if family == "mx" else {}
    for shape in ((1024,), (37,), (3, 53), (53, 3), (2, 19, 5)):
        x = values(rng, int(np.prod(shape))).reshape(shape)
        if family == "bfp":  # infinity and NaN have no place in the format, nor has the sign of zero
            x = np.where(np.isfinite(x), x, np.float32(1))
        for axis in range(len(shape)):
            fake = call("fake_quantize", name, x, axis=axis, **rounding, **rule)
            fake = fake + np.float32(0) if family == "bfp" else fake
            records = call("quantize", name, x, axis=axis, **rounding)
            assert records.shape[:-2] == shape[:axis] + shape[axis + 1 :]
            back = call("dequantize", name, records, shape[axis], axis=axis)
            np.testing.assert_array_equal(bits(back), bits(fake), str((shape, axis)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("mx9-half_even", 9.0), ("mx6-half_even", 6.0), ("mx4-half_even", 4.0), ("mx-fp8_e4m3", 8.25),
     ("mx-fp6_e2m3", 6.25), ("mx-fp4_e2m1", 4.25), ("mxint8-half_even", 8.25),
     ("bfp-half_even-saturate-block8-width16", 9.0)],
)  # fmt: skip
def test_storage_takes_as_many_bits_an_element_as_the_format_says(name: str, expected: float) -> None:
    records = call("quantize", name, np.zeros(1024, np.float32))
    assert records.nbytes * 8 / 1024 == expected


@pytest.mark.parametrize("up", [False, True], ids=["saturate", "raise"])
def test_block_floating_point_stores_infinity_and_nan_beside_the_largest_exponent(isa: str, up: bool) -> None:
    x = np.float32([np.inf, -np.inf, np.nan, -np.nan, 1.0, -3e38, 3e38, 0.0])
    records = quarkfast.quantize_bfp(x, raise_exponent=up)
    assert records[0].tolist() == [255, 127, 129, 128, 128, 0, 256 - 56, 56, 0]
    back = quarkfast.dequantize_bfp(records, 8)
    step = 2.0**122
    np.testing.assert_array_equal(back, np.float32([np.inf, -np.inf, np.nan, np.nan, 0, -56 * step, 56 * step, 0]))


def test_scales_and_elements_are_slices_of_the_records(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 64)).astype(np.float32)
    records = quarkfast.quantize_mx(x, "fp8_e4m3")
    scale = np.ascontiguousarray(records[..., 0]).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    elements = np.ascontiguousarray(records[..., 1:]).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    np.testing.assert_array_equal(
        (elements * scale[..., None]).reshape(4, 64), quarkfast.fake_quantize_mx(x, "fp8_e4m3", rule="ocp")
    )


def test_4_bit_elements_lie_in_the_order_of_onnx() -> None:
    records = quarkfast.quantize_mx(np.float32([0.5, -6.0, 1.5, 0.0]), "fp4_e2m1")
    assert records[0, :3].tolist() == [127, 0x1 | 0xF << 4, 0x3]


def test_16_bit_floats_are_stored_as_their_float32_values(rng: np.random.Generator) -> None:
    x = quarkfast.cast(values(rng, 999), np.float16)
    np.testing.assert_array_equal(quarkfast.quantize_bfp(x), quarkfast.quantize_bfp(quarkfast.cast(x, np.float32)))
