"""Codes and scales are what the formulas say, in NumPy and ml_dtypes, for every preset."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from quarkfast.checkpoint.rounding import Rounding, check_method, quantize_weight
from quarkfast.checkpoint.schemes import PRESETS, fit_group, scheme_of
from quarkfast.errors import ConfigError, ModelError
from support.made_checkpoints import drawn_matrix, float_weight

F32 = np.dtype(np.float32)
SCALE_DTYPES = [F32, np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]


def quantized(x: np.ndarray, preset: str, method: str = "minmax", dtype: np.dtype = F32, **more):
    return quantize_weight(float_weight(x), scheme_of(preset), Rounding(dtype, method), **more)


@pytest.mark.parametrize("dtype", SCALE_DTYPES, ids=str)
@pytest.mark.parametrize("preset", ["int8_wo_32", "int4_wo_64", "int3_wo_128", "int2_wo_32", "int4_wo_per_channel"])
def test_symmetric_integers_have_the_scale_of_half_their_range(rng, preset, dtype):
    x, element = drawn_matrix(rng), scheme_of(preset).element
    group = scheme_of(preset).group_size or 256
    found = quantized(x, preset, dtype=dtype)
    blocks = x.reshape(24, -1, group)
    scale = np.abs(blocks).max(-1) / np.float32((element.high - element.low) / 2)
    scale = np.where(scale == 0, np.float32(2**-23), scale).astype(dtype)
    np.testing.assert_array_equal(found.scale, scale)
    codes = np.clip(np.rint(blocks / scale.astype(np.float32)[..., None]), element.low, element.high)
    np.testing.assert_array_equal(found.codes, codes.reshape(x.shape).astype(np.int8))
    np.testing.assert_array_equal(found.rows(0, 24), (codes * scale.astype(np.float32)[..., None]).reshape(x.shape))


@pytest.mark.parametrize("dtype", SCALE_DTYPES, ids=str)
@pytest.mark.parametrize("preset", ["uint4_wo_64", "uint8_wo_per_channel", "uint2_wo_32", "uint3_wo_64"])
def test_asymmetric_integers_cover_their_range_and_zero(rng, preset, dtype):
    x, element = drawn_matrix(rng), scheme_of(preset).element
    blocks = x.reshape(24, -1, scheme_of(preset).group_size or 256)
    found = quantized(x, preset, dtype=dtype)
    low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
    scale = (high - low) / np.float32(element.high)
    scale = np.where(scale == 0, np.float32(2**-23), scale).astype(dtype)
    wide = scale.astype(np.float32)
    zero = np.clip(np.rint(-low / wide), 0, element.high)
    np.testing.assert_array_equal(found.scale, scale)
    np.testing.assert_array_equal(found.zero_point, zero.astype(np.uint8))
    codes = np.clip(np.rint(blocks / wide[..., None]) + zero[..., None], 0, element.high)
    np.testing.assert_array_equal(found.codes, codes.reshape(x.shape).astype(np.uint8))
    expected = (codes - zero[..., None]) * wide[..., None]
    np.testing.assert_array_equal(found.rows(0, 24), expected.reshape(x.shape))


def test_float8_is_that_of_ml_dtypes_per_tensor_channel_and_block(rng):
    x = drawn_matrix(rng, 300, 200)
    tensor = np.full((1, 1), np.abs(x).max() / np.float32(448), np.float32)
    channel = np.abs(x).max(1, keepdims=True) / np.float32(448)
    padded = np.zeros((384, 256), np.float32)
    padded[:300, :200] = x
    block = np.abs(padded).reshape(3, 128, 2, 128).max((1, 3)) / np.float32(448)
    wide = np.repeat(np.repeat(block, 128, 0), 128, 1)[:300, :200]
    for preset, scale, each in (("fp8", tensor, tensor), ("ptpc_fp8", channel, channel), ("fp8_block", block, wide)):
        found = quantized(x, preset)
        np.testing.assert_array_equal(found.scale, scale)
        expected = (x / each).astype(ml_dtypes.float8_e4m3fn)
        np.testing.assert_array_equal(found.codes.view(np.uint8), expected.view(np.uint8))
        np.testing.assert_array_equal(found.rows(0, 300), expected.astype(np.float32) * each)


@pytest.mark.parametrize("preset", ["mxfp4", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp8"])
def test_microscaling_rounds_the_exponent_with_the_mantissa(rng, preset):
    x, element = drawn_matrix(rng), scheme_of(preset).element
    found = quantized(x, preset)
    largest = np.abs(x.reshape(24, -1, 32)).max(-1).astype(np.float64)
    # Rounded half up to the element's mantissa, whose power of two counts.
    power = np.floor(np.log2(np.where(largest == 0, 2.0**-126, largest)))
    step = 2.0 ** (power - element.mantissa)
    rounded = np.floor(largest / step + 0.5) * step
    exponent = np.floor(np.log2(np.where(rounded == 0, 2.0**-127, rounded))) - element.exponent
    expected = np.clip(exponent, -127, 127)
    np.testing.assert_array_equal(found.scale.astype(np.float64), 2.0**expected)
    values = (x.reshape(24, -1, 32) / (2.0**expected)[..., None]).astype(np.float32)
    codes = np.clip(values, element.low, element.high).astype(element.dtype)
    np.testing.assert_array_equal(found.codes.astype(np.float32), codes.reshape(x.shape).astype(np.float32))


def test_nvfp4_has_scales_of_float8_below_one_of_the_tensor(rng):
    x = drawn_matrix(rng)
    found = quantized(x, "nvfp4")
    divisor = np.float32(6 * 448) / np.abs(x).max()
    assert found.global_scale == divisor
    largest = np.abs(x.reshape(24, -1, 16)).max(-1) / np.float32(6)
    scale = (largest * divisor).astype(ml_dtypes.float8_e4m3fn)
    scale[scale == 0] = 0.125
    np.testing.assert_array_equal(found.scale.view(np.uint8), scale.view(np.uint8))
    wide = (scale.astype(np.float32) / divisor)[..., None]
    codes = (x.reshape(24, -1, 16) / wide).astype(ml_dtypes.float4_e2m1fn)
    np.testing.assert_array_equal(found.codes.view(np.uint8), codes.reshape(x.shape).view(np.uint8))
    np.testing.assert_array_equal(found.rows(0, 24), (codes.astype(np.float32) * wide).reshape(x.shape))


def test_mxint8_has_codes_in_steps_of_a_sixty_fourth(rng):
    x = drawn_matrix(rng)
    found = quantized(x, "mxint8")
    scale = found.scale.astype(np.float32)[..., None]
    codes = np.clip(np.rint(x.reshape(24, -1, 32) / scale * 64), -127, 127)
    np.testing.assert_array_equal(found.codes, codes.reshape(x.shape).astype(np.int8))
    np.testing.assert_array_equal(found.rows(0, 24), (codes / 64 * scale).reshape(x.shape).astype(np.float32))


@pytest.mark.parametrize("preset", ["bfloat16", "float16"])
def test_plain_floats_are_rounded_once(rng, preset):
    x = drawn_matrix(rng)
    np.testing.assert_array_equal(quantized(x, preset).codes, x.astype(scheme_of(preset).element.dtype))


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("preset", ["int4_wo_64", "mxfp4", "fp8"])
def test_half_weights_are_what_they_are_as_float32(rng, kind, preset):
    half = drawn_matrix(rng).astype(kind)
    found, wide = quantized(half, preset), quantized(half.astype(np.float32), preset)
    np.testing.assert_array_equal(found.codes.view(np.uint8), wide.codes.view(np.uint8))
    np.testing.assert_array_equal(found.scale.view(np.uint8), wide.scale.view(np.uint8))


def test_reciprocals_differ_from_quotients_as_quarks_codes_do():
    scale = np.float32(0.1) / np.float32(7.5)
    x = np.full((1, 32), 0.1, np.float32)
    x[0, 1:] = np.arange(31, dtype=np.float32) * scale / 4
    found = quantize_weight(float_weight(x), scheme_of("int4_wo_32"), Rounding(F32, "minmax", as_quark=True))
    np.testing.assert_array_equal(found.codes, np.clip(np.rint(x * (np.float32(1) / scale)), -8, 7).astype(np.int8))


def test_a_weight_in_parts_is_the_weight_at_once(rng, monkeypatch):
    x = drawn_matrix(rng, 500, 256)
    for preset in ("int4_wo_64", "fp8", "fp8_block", "nvfp4"):
        whole = quantized(x, preset)
        with monkeypatch.context() as patch:
            patch.setattr("quarkfast.checkpoint.weights._AT_ONCE", 256 * 7)
            parts = quantized(x, preset)
        np.testing.assert_array_equal(whole.codes.view(np.uint8), parts.codes.view(np.uint8))
        np.testing.assert_array_equal(whole.scale.view(np.uint8), parts.scale.view(np.uint8))


@pytest.mark.parametrize("preset", ["int4_wo_64", "uint4_wo_64", "int3_wo_32", "uint2_wo_32", "uint4_wo_per_channel"])
def test_least_error_is_never_worse_in_any_block_and_better_in_most(rng, preset):
    x = drawn_matrix(rng, 64)
    width = scheme_of(preset).group_size or 256

    def errors(method: str) -> np.ndarray:
        found = quantized(x, preset, method, np.dtype(np.float16)).rows(0, 64)
        return ((found - x).reshape(-1, width) ** 2).sum(1, dtype=np.float64)

    plain, least = errors("minmax"), errors("mse")
    assert (least <= plain).all()
    assert (least < plain).mean() > 0.8
    assert least.sum() < 0.95 * plain.sum()


def test_percentile_leaves_the_outliers(rng):
    x = drawn_matrix(rng)
    x[:, 7] = 5
    plain, cut = (quantized(x, "int4_wo_per_channel", method).scale for method in ("minmax", "percentile"))
    assert (cut < plain / 10).all()


def test_layers_that_share_a_scale_have_that_of_the_largest(rng):
    x = drawn_matrix(rng)
    assert quantized(x, "fp8", largest=np.float32(2)).scale == np.float32(2) / np.float32(448)
    assert quantized(x, "nvfp4", largest=np.float32(2)).global_scale == np.float32(1344)


@pytest.mark.parametrize("preset", [name for name, row in PRESETS.items() if row.granularity != "block"])
def test_zeros_stay_zeros_under_every_preset(preset):
    found = quantized(np.zeros((4, 128), np.float32), preset)
    assert not found.rows(0, 4).any()
    assert found.scale is None or np.isfinite(found.scale.astype(np.float32)).all()
    assert found.scale is None or (found.scale.astype(np.float32) > 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("preset", ["int4_wo_64", "fp8", "mxfp4", "nvfp4", "bfloat16"])
def test_nan_and_infinity_are_refused(rng, preset, bad):
    x = drawn_matrix(rng)
    x[11, 200] = bad
    with pytest.raises(ModelError, match=r"'layer.weight': expected finite weights, got NaN or infinity"):
        quantized(x, preset)


@pytest.mark.parametrize(
    ("preset", "method"), [("fp8", "mse"), ("mxfp4", "percentile"), ("nvfp4", "mse"), ("bfloat16", "mse")]
)
def test_methods_of_integers_are_refused_for_floats(preset, method):
    with pytest.raises(ConfigError, match=f"method: expected minmax for {preset}, got {method}"):
        check_method(method, scheme_of(preset))


def test_unknown_names_are_told_with_the_nearest():
    with pytest.raises(ConfigError, match=r"preset: expected one of .*, got 'int4_wo_65'; did you mean 'int4_wo_6?4'"):
        scheme_of("int4_wo_65")
    with pytest.raises(
        ConfigError, match=r"method: expected one of minmax, percentile, mse, got 'msa'; did you mean 'mse'"
    ):
        check_method("msa", scheme_of("int4_wo_64"))


def test_groups_divide_the_inputs_of_every_layer():
    scheme = scheme_of("int4_wo_128")
    assert fit_group(scheme, [256, 1024], None) == scheme
    assert fit_group(scheme, [576, 1536], "auto") == replace(scheme, group_size=64)
    assert fit_group(scheme, [576, 1536], 32).group_size == 32
    with pytest.raises(ConfigError, match="got 128 for 576; --group-size auto takes the largest that does"):
        fit_group(scheme, [576, 1536], None)
    with pytest.raises(ConfigError, match="expected groups that divide the inputs of every layer, got 'auto' for 7"):
        fit_group(scheme, [7], "auto")
    with pytest.raises(ConfigError, match="group_size: expected 32, which mxfp4 fixes, got 64"):
        fit_group(scheme_of("mxfp4"), [256], 64)
    with pytest.raises(ConfigError, match=r"got 16 for 24$"):
        fit_group(scheme_of("nvfp4"), [24], None)
    with pytest.raises(ConfigError, match="group_size: expected a preset with groups, got fp8"):
        fit_group(scheme_of("fp8"), [256], 64)
