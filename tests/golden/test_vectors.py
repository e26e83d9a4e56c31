"""The recorded files can be read, tell where they come from and hold what their names say."""

import json

import numpy as np
import pytest

from .vectors import FOLDER, bits, cases, formats

# float16 is left out: Quark's CPU kernel ignores scale and zero point there
DEQUANTIZED = [name for name in formats() if name.startswith("dequantize_") and name != "dequantize_float16"]


@pytest.mark.parametrize("name", formats())
def test_every_file_names_the_tool_the_operator_and_the_onnxruntime_that_wrote_it(name: str) -> None:
    provenance = json.loads((FOLDER / f"quark_{name}.json").read_text(encoding="ascii"))["provenance"]
    assert provenance["tool"].startswith("AMD Quark 0.13")
    assert {"domain", "operator", "onnxruntime", "numpy", "inputs"} <= provenance.keys()


@pytest.mark.parametrize("name", [name for name in formats() if name.startswith(("bfp", "mx"))])
def test_block_operators_keep_shape_and_type(name: str) -> None:
    for case in cases(name):
        assert case.output.shape == case.inputs[0].shape
        assert case.output.dtype == case.inputs[0].dtype


@pytest.mark.parametrize("name", DEQUANTIZED)
def test_recorded_dequantization_is_the_difference_to_the_zero_point_times_the_scale(name: str) -> None:
    for case in cases(name):
        code, scale, zero_point = case.inputs
        shape = [1] * code.ndim
        if scale.size > 1:
            shape[case.attributes["axis"]] = scale.size
        wide = np.int64 if np.issubdtype(code.dtype, np.integer) else np.float32
        with np.errstate(over="ignore", invalid="ignore"):
            difference = np.subtract(code.astype(wide), zero_point.astype(wide).reshape(shape)).astype(np.float32)
            expected = difference * scale.astype(np.float32).reshape(shape)
        same = (bits(expected) == bits(case.output)) | (np.isnan(expected) & np.isnan(case.output))
        assert same.all(), case
