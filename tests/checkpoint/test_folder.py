"""Folders of checkpoints are read as they are, and a broken one is told in one sentence with nothing left behind."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file

from quarkfast.checkpoint import quantize_checkpoint
from quarkfast.checkpoint.folder import read_folder
from quarkfast.checkpoint.weights import float_weights
from quarkfast.errors import ModelError
from support.made_checkpoints import BROKEN, CONFIG, KINDS, llama_tensors, write_checkpoint


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("shards", [1, 3])
def test_every_tensor_is_what_the_file_holds(tmp_path, kind, shards):
    tensors = llama_tensors(kind)
    folder = read_folder(write_checkpoint(tmp_path / "m", tensors, shards=shards))
    weights = float_weights(folder)
    assert set(weights) == set(tensors)
    for name, array in tensors.items():
        assert weights[name].kind == kind
        np.testing.assert_array_equal(weights[name].kept(), array)
        if array.ndim == 2:
            found = np.concatenate([rows for _, rows in weights[name].chunks()])
            np.testing.assert_array_equal(found, array.astype(np.float32))


def test_the_package_safetensors_reads_the_same_file_as_the_mapping(tmp_path):
    folder = read_folder(write_checkpoint(tmp_path / "m"))
    for name, array in load_file(folder.path / "model.safetensors").items():
        np.testing.assert_array_equal(folder.tensors[name].array(), array)


@pytest.mark.parametrize(
    ("block", "scale_shape"), [((128, 128), (3, 2)), ((300, 200), ()), ((1, 200), (300, 1)), ((1, 200), (300,))]
)
def test_fp8_is_dequantized_by_block_tensor_and_row(tmp_path, rng, block, scale_shape):
    codes = rng.standard_normal((300, 200), np.float32).astype(KINDS["F8_E4M3"])
    scale = np.asarray(rng.uniform(0.5, 2.0, scale_shape), np.float32)
    name = "weight_scale_inv" if scale_shape == (3, 2) else "weight_scale"
    module = "model.layers.0.mlp.up_proj"
    tensors = {f"{module}.weight": codes, f"{module}.{name}": scale}
    config = CONFIG | {"quantization_config": {"quant_method": "fp8"}}
    (weight,) = float_weights(read_folder(write_checkpoint(tmp_path / "m", tensors, config))).values()
    wide = np.repeat(np.repeat(scale.reshape(-1, 2 if scale_shape == (3, 2) else 1), block[0], 0), block[1], 1)
    expected = codes.astype(np.float32) * wide[:300, :200]
    np.testing.assert_array_equal(weight.rows(0, 300), expected)
    np.testing.assert_array_equal(weight.rows(130, 257), expected[130:257])
    np.testing.assert_array_equal(weight.kept(), expected.astype(ml_dtypes.bfloat16))


def test_scales_of_fp8_of_a_wrong_shape_are_refused(tmp_path):
    tensors = {
        "a.q_proj.weight": np.zeros((256, 256), KINDS["F8_E4M3"]),
        "a.q_proj.weight_scale_inv": np.ones((2, 3), np.float32),
    }
    config = CONFIG | {"quantization_config": {"quant_method": "fp8"}}
    with pytest.raises(ModelError, match=r"expected scales of shape \(2, 2\), got \(2, 3\)"):
        float_weights(read_folder(write_checkpoint(tmp_path / "m", tensors, config)))


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_folder_is_one_sentence_and_nothing_is_left(tmp_path, what):
    shards, break_it, sentence = BROKEN[what]
    folder = write_checkpoint(tmp_path / "m", shards=shards)
    break_it(folder)
    with pytest.raises(ModelError) as caught:
        quantize_checkpoint(folder, tmp_path / "out", "int4_wo_64")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == [folder]


def test_a_file_is_no_folder(tmp_path: Path):
    with pytest.raises(ModelError, match="expected a folder of a checkpoint, got none"):
        read_folder(tmp_path / "none")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ModelError, match="expected a folder of a checkpoint, got a file"):
        read_folder(tmp_path / "file")
