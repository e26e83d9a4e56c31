"""Layers are chosen by architecture and by patterns; heads, embeddings and routers stay float."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast.checkpoint.folder import read_folder
from quarkfast.checkpoint.selection import ARCHITECTURES, UNKNOWN, architecture_of, select_layers
from quarkfast.checkpoint.weights import float_weights
from quarkfast.errors import ConfigError, ModelError
from support.made_checkpoints import CONFIG, LAYERS, write_checkpoint

# model_type -> names as Hugging Face has them: layers that are quantized, and matrices that are left.
PUBLISHED = {
    "llama": (["model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj"], ["lm_head", "model.embed_tokens"]),
    "mistral": (["model.layers.0.self_attn.k_proj", "model.layers.0.mlp.up_proj"], ["model.embed_tokens"]),
    "qwen3": (["model.layers.0.self_attn.o_proj", "model.layers.0.mlp.gate_proj"], ["lm_head"]),
    "gemma2": (["model.layers.0.self_attn.v_proj"], ["model.embed_tokens"]),
    "phi": (["model.layers.0.self_attn.dense", "model.layers.0.mlp.fc1"], ["lm_head"]),
    "phi3": (["model.layers.0.self_attn.qkv_proj", "model.layers.0.mlp.gate_up_proj"], ["lm_head"]),
    "gpt2": (["h.0.attn.c_attn", "h.0.mlp.c_fc", "h.0.mlp.c_proj"], ["wte", "wpe"]),
    "opt": (
        ["model.decoder.layers.0.self_attn.out_proj", "model.decoder.layers.0.fc2"],
        ["model.decoder.embed_tokens"],
    ),
    "mixtral": (["model.layers.0.block_sparse_moe.experts.3.w2"], ["model.layers.0.block_sparse_moe.gate"]),
    "qwen3_moe": (["model.layers.0.mlp.experts.7.up_proj"], ["model.layers.0.mlp.gate", "lm_head"]),
}


def selected(folder, names, architecture, **patterns):
    tensors = {f"{name}.weight": np.ones((8, 8), np.float32) for name in names}
    weights = float_weights(read_folder(write_checkpoint(folder / "m", tensors)))
    return select_layers(weights, architecture, **patterns)


@pytest.mark.parametrize("kind", PUBLISHED)
def test_a_row_takes_layers_and_leaves_heads_embeddings_and_routers(tmp_path, kind):
    layers, left = PUBLISHED[kind]
    found = selected(tmp_path, [*layers, *left], architecture_of({"model_type": kind}, "config.json"))
    assert set(found.quantized) == set(layers)
    assert set(found.left) == set(left)
    assert not found.by_pattern


def test_every_row_has_a_published_name():
    assert {architecture_of({"model_type": kind}, "").name for kind in PUBLISHED} == {row.name for row in ARCHITECTURES}


def test_an_unknown_architecture_takes_every_matrix_but_heads_embeddings_and_routers(tmp_path):
    names = ["tower.dense_1", "tower.dense_2", "lm_head", "embeddings.word_embeddings", "tower.gate", "tower.norm"]
    found = selected(tmp_path, names, UNKNOWN)
    assert found.quantized == ("tower.dense_1", "tower.dense_2")
    assert found.by_pattern
    assert architecture_of({"model_type": "mamba9"}, "config.json") is UNKNOWN


def test_patterns_take_more_and_leave_some(tmp_path):
    names = [f"model.layers.{block}.{name}" for block in range(2) for name in LAYERS] + ["lm_head"]
    row = architecture_of(CONFIG, "config.json")
    found = selected(tmp_path, names, row, include=["lm_head"], exclude=["model.layers.1.*"])
    assert set(found.quantized) == {"lm_head", *(f"model.layers.0.{name}" for name in LAYERS)}


@pytest.mark.parametrize("where", ["include", "exclude"])
def test_a_pattern_that_matches_nothing_is_told(tmp_path, where):
    names = ["model.layers.0.self_attn.q_proj", "lm_head"]
    with pytest.raises(
        ConfigError, match=rf"{where}: expected the name of a layer, got 'lm_haed'; did you mean 'lm_head'"
    ):
        selected(tmp_path, names, architecture_of(CONFIG, ""), **{where: ["lm_haed"]})


def test_a_part_of_what_runtimes_join_cannot_be_left(tmp_path):
    names = [f"model.layers.0.self_attn.{part}_proj" for part in "qkvo"]
    row = architecture_of(CONFIG, "")
    with pytest.raises(ConfigError, match=r"exclude: expected all or none of what runtimes join, .* got .*k_proj"):
        selected(tmp_path, names, row, exclude=["*.k_proj"])
    assert selected(tmp_path, names, row, exclude=["*.[qkv]_proj"]).quantized == (names[3],)
    fused = selected(tmp_path, names, row).fused
    assert fused == dict.fromkeys(names[:3], tuple(names[:3]))


def test_everything_left_is_an_error(tmp_path):
    with pytest.raises(ModelError, match="expected linear layers, got none among 1 matrices"):
        selected(tmp_path, ["a.q_proj"], architecture_of(CONFIG, ""), exclude=["*"])
