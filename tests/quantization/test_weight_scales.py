from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from quarkfast.quantization.weight_only.codes import scales_of


@pytest.mark.parametrize("code", ["int4", "uint4", "int8", "uint8"])
def test_no_weight_is_off_by_more_than_half_a_step(rng, code):
    values = rng.normal(size=(200, 32)).astype(np.float32)
    found = scales_of(values.min(1), values.max(1), code, symmetric=True)
    limits = {"int4": (-8, 7), "uint4": (0, 15), "int8": (-128, 127), "uint8": (0, 255)}[code]
    steps = values.astype(np.float64) / found.scale[:, None]
    codes = np.clip(np.rint(steps) + found.zero_point[:, None], *limits) - found.zero_point[:, None]
    # The scale is rounded to float32 once: half a unit in the last place of 127 steps.
    assert np.abs(codes - steps).max() <= 0.5 + 128 * 2.0**-24
    assert (found.zero_point == (0 if code.startswith("int") else (limits[1] + 1) // 2)).all()


def test_no_smaller_scale_would_do():
    found = scales_of(np.float32([-8.5, -1]), np.float32([1, 7.5]), "int4", symmetric=True)
    assert found.scale.tolist() == [1, 1]


def test_weights_that_reach_further_up_have_mirrored_codes():
    found = scales_of(np.float32([-8.5, -1]), np.float32([1, 8.5]), "int4", symmetric=True, mirrored=True)
    assert found.scale.tolist() == [1, -1]


@pytest.mark.parametrize("size", [32, 128])
def test_mirrored_codes_are_closer_to_the_weights_than_those_of_onnxruntime(rng, size):
    values = rng.normal(size=(2000, size))
    extreme = np.take_along_axis(values, np.abs(values).argmax(axis=1)[:, None], axis=1)
    ours = scales_of(values.min(1), values.max(1), "int4", symmetric=True, mirrored=True).scale[:, None]
    errors = [np.square(values - step * np.clip(np.rint(values / step), -8, 7)).sum() for step in (ours, extreme / -8)]
    assert errors[0] < errors[1]


def test_asymmetric_ends_meet_the_ends_of_the_codes():
    found = scales_of(np.float32([-5, 3]), np.float32([10, 15]), "uint4", symmetric=False)
    assert found.scale.tolist() == [1, 1]
    assert found.zero_point.tolist() == [5, 0]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_scale_is_finite_and_greater_than_zero(symmetric, dtype):
    largest = float(ml_dtypes.finfo(dtype).max)
    smallest = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    high = np.array([0, smallest, largest], dtype)
    found = scales_of(-high, high, "int4", symmetric=symmetric, dtype=np.dtype(dtype))
    assert found.scale.dtype == dtype
    assert (found.scale.astype(np.float64) > 0).all()
    assert np.isfinite(found.scale.astype(np.float64)).all()
    assert found.scale[0] == 1
