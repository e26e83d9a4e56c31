"""Our words and scales are those of the package compressed-tensors, which reads our tensors as we meant them."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast.checkpoint.layouts import layout_of
from quarkfast.checkpoint.rounding import Rounding, quantize_weight
from quarkfast.checkpoint.schemes import scheme_of
from support.made_checkpoints import drawn_matrix, float_weight

torch = pytest.importorskip("torch", reason="compressed-tensors needs PyTorch: nox -s checkpoints")
package = pytest.importorskip("compressed_tensors", reason="no compressed-tensors: nox -s checkpoints")

PRESETS = [
    "int4_wo_64",
    "uint4_wo_64",
    "int4_wo_per_channel",
    "int3_wo_64",
    "int2_wo_32",
    "int8_wo_64",
    "int8",
    "ptpc_fp8",
    "fp8",
]
PRESETS += ["mxfp4", "mxfp8", "nvfp4"]


@pytest.mark.parametrize("preset", PRESETS)
def test_the_package_makes_the_same_scales_and_words_and_reads_ours(rng, preset):
    version = tuple(map(int, package.__version__.split(".")[:2]))
    if preset in ("int3_wo_64", "mxfp8") and version < (0, 20):
        pytest.skip("before 0.20 the package packed 3 bits with gaps, and rounded exponents of FP8 as those of FP4")
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    x, scheme = drawn_matrix(rng), scheme_of(preset)
    if not scheme.symmetric:  # a group of zeros has another zero point there, and the same values
        x[3] = x[4]
    form = layout_of("compressed-tensors", scheme)
    weight = quantize_weight(float_weight(x), scheme, Rounding(np.dtype(np.float32)))
    ours = form.pack("m", weight)
    config = form.config(scheme, [])
    theirs = QuantizationScheme(**config["config_groups"]["group_0"])
    blocks = torch.from_numpy(x.reshape(weight.scale.shape[0], weight.scale.shape[1], -1))
    if scheme.granularity == "tensor":
        blocks = torch.from_numpy(x.reshape(1, 1, -1))
    divisor = None if weight.global_scale is None else torch.tensor([weight.global_scale])
    scale, zero = calculate_qparams(blocks.amin(-1), blocks.amax(-1), theirs.weights, divisor)
    state = {"weight": torch.from_numpy(x), "weight_scale": scale}
    if divisor is not None:
        state["weight_global_scale"] = divisor
    if not scheme.symmetric:
        state["weight_zero_point"] = zero.to(torch.int8)
    compressor = BaseCompressor.get_value_from_registry(config["format"])
    packed = compressor.compress(dict(state), theirs)
    assert {f"m.{name}" for name in packed} == set(ours)
    for name, tensor in packed.items():
        found, expected = np.ascontiguousarray(ours[f"m.{name}"]), tensor.contiguous().view(torch.uint8).numpy()
        np.testing.assert_array_equal(found.view(np.uint8).reshape(-1), expected.reshape(-1), err_msg=name)
    read = {
        name.removeprefix("m."): torch.from_numpy(np.ascontiguousarray(each))
        for name, each in ours.items()
        if each.dtype.kind in "iuf"
    }
    if set(read) == {name.removeprefix("m.") for name in ours}:
        back = compressor.decompress(read, theirs)["weight"].float().numpy()
        np.testing.assert_array_equal(back, weight.rows(0, len(x)))
