"""GGUF files hold the bytes of the package gguf, the model's sizes and its tokenizer, and appear whole or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
import pytest

from quarkfast.checkpoint import GGUF_PRESETS, quantize_checkpoint
from quarkfast.checkpoint.gguf_models import GGUF_MODELS, rope_factors
from quarkfast.checkpoint.gguf_tokenizer import splitting_of
from quarkfast.errors import ConfigError, ModelError, OutputError, UnsupportedError
from support.made_checkpoints import CONFIG, HEADS, KEY_HEADS, VOCABULARY, llama_tensors, write_checkpoint

DIGITS = {"type": "Digits", "individual_digits": True}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
TOKENIZER: dict[str, Any] = {
    "added_tokens": [
        {"id": 90, "content": "<|end|>", "special": True},
        {"id": 91, "content": "<tool>", "special": False},
    ],
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [DIGITS, BYTES]},
    "model": {"type": "BPE", "vocab": {chr(33 + index): index for index in range(90)}, "merges": [["a", "b"]]},
}


def write_source(folder: Path, tensors: Any = None, config: Any = CONFIG, tokenizer: Any = TOKENIZER) -> Path:
    write_checkpoint(folder, tensors, config)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    settings = {"eos_token": "<|end|>", "chat_template": "{{ messages }}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    reader = gguf.GGUFReader(path)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    return fields, {tensor.name: tensor for tensor in reader.tensors}


def interleaved(array: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a head's halves in pairs, written as loops."""
    half = array.shape[0] // heads // 2
    rows = [head * 2 * half + part * half + row for head in range(heads) for row in range(half) for part in (0, 1)]
    return array[rows]


@pytest.mark.parametrize("preset", [each for each in GGUF_PRESETS if each not in ("F16", "BF16")])
def test_blocks_are_those_of_the_package_gguf(tmp_path, preset):
    result = quantize_checkpoint(write_source(tmp_path / "m"), tmp_path / "m.gguf", preset, "gguf", verify=True)
    _, tensors = read(tmp_path / "m.gguf")
    source = llama_tensors()
    kind = tensors["blk.0.ffn_down.weight"].tensor_type
    for name, expected in (
        ("ffn_down", source["model.layers.1.mlp.down_proj.weight"]),
        ("attn_q", interleaved(source["model.layers.1.self_attn.q_proj.weight"], HEADS)),
        ("attn_k", interleaved(source["model.layers.1.self_attn.k_proj.weight"], KEY_HEADS)),
        ("attn_v", source["model.layers.1.self_attn.v_proj.weight"]),
    ):
        found = tensors[f"blk.1.{name}.weight"]
        try:
            records = gguf.quantize(expected, found.tensor_type)
        except NotImplementedError:  # the package reads these, and llama.cpp alone writes them
            noise = gguf.dequantize(found.data, found.tensor_type) - expected
            assert (noise**2).sum() < 0.02 * (expected**2).sum()
        else:
            np.testing.assert_array_equal(found.data, records)
    assert kind.name in (preset, "Q5_0", "Q5_1", "Q8_0", "Q4_0")
    assert tensors["output.weight"].tensor_type.name == "Q8_0"
    assert tensors["token_embd.weight"].tensor_type.name in (preset, "Q5_0", "Q5_1", "Q8_0", "Q4_0")
    assert tensors["output_norm.weight"].tensor_type.name == "F32"
    assert len(result.verification.layers) == result.verification.of == 16


@pytest.mark.parametrize(
    ("preset", "dtype"), [("F16", np.float16), ("BF16", ml_dtypes.bfloat16), ("float16", np.float16)]
)
def test_plain_floats_are_rounded_once(tmp_path, preset, dtype):
    quantize_checkpoint(write_source(tmp_path / "m"), tmp_path / "m.gguf", preset, "gguf", verify=True)
    _, tensors = read(tmp_path / "m.gguf")
    found = np.ascontiguousarray(tensors["output.weight"].data).view(np.uint8).view(dtype)
    np.testing.assert_array_equal(found.reshape(VOCABULARY, -1), llama_tensors()["lm_head.weight"].astype(dtype))


def test_tied_embeddings_are_the_head_and_have_eight_bits(tmp_path):
    tensors = llama_tensors()
    del tensors["lm_head.weight"]
    source = write_source(tmp_path / "m", tensors, CONFIG | {"tie_word_embeddings": True})
    quantize_checkpoint(source, tmp_path / "m.gguf", "Q4_0", "gguf")
    _, found = read(tmp_path / "m.gguf")
    assert "output.weight" not in found
    assert found["token_embd.weight"].tensor_type.name == "Q8_0"


def test_rows_that_no_block_divides_are_float16_and_said(tmp_path):
    config = CONFIG | {"hidden_size": 40, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 64}
    shapes = {"mlp.gate_proj": (64, 40), "mlp.up_proj": (64, 40), "mlp.down_proj": (40, 64)}
    shapes |= {f"self_attn.{part}_proj": (40, 40) for part in "qkvo"}
    tensors = {f"model.layers.0.{name}.weight": np.ones(shape, np.float32) for name, shape in shapes.items()}
    tensors |= {"model.embed_tokens.weight": np.ones((VOCABULARY, 40), np.float32)}
    source = write_source(tmp_path / "m", tensors, config | {"num_hidden_layers": 1})
    result = quantize_checkpoint(source, tmp_path / "m.gguf", "Q4_0", "gguf", dry_run=True)
    assert "rows of 40 are F16: no multiple of Q4_0's 32" in result.notes
    assert list(tmp_path.iterdir()) == [source]


def test_sizes_and_tokens_are_told_as_llama_cpp_reads_them(tmp_path):
    quantize_checkpoint(write_source(tmp_path / "m"), tmp_path / "m.gguf", "q4_0", "gguf")
    fields, tensors = read(tmp_path / "m.gguf")
    expected = {"context_length": 128, "embedding_length": 128, "block_count": 2, "feed_forward_length": 256}
    expected |= {"attention.head_count": 4, "attention.head_count_kv": 2, "vocab_size": VOCABULARY}
    expected |= {"rope.dimension_count": 32, "attention.key_length": 32, "rope.freq_base": 10000.0}
    assert {name: fields[f"llama.{name}"] for name in expected} == expected
    assert fields["general.file_type"] == gguf.LlamaFileType.MOSTLY_Q4_0
    assert fields["tokenizer.ggml.model"] == "gpt2"
    assert fields["tokenizer.ggml.pre"] == "smollm"
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    assert tokens[:2] == ["!", '"']
    assert tokens[90:] == ["<|end|>", "<tool>", "[PAD92]", "[PAD93]", "[PAD94]", "[PAD95]"]
    assert kinds[89:] == [1, 3, 4, 5, 5, 5, 5]
    assert fields["tokenizer.ggml.merges"] == ["a b"]
    assert fields["tokenizer.ggml.eos_token_id"] == 90
    assert fields["tokenizer.ggml.add_bos_token"] is False
    assert fields["tokenizer.chat_template"] == "{{ messages }}"
    assert len(tensors) == len(llama_tensors())


@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])
def test_other_architectures_keep_the_order_of_rows_and_have_their_own_tensors(tmp_path, kind):
    tensors, more = llama_tensors(), "self_attn.q_proj.bias" if kind == "qwen2" else "self_attn.q_norm.weight"
    size = 128 if kind == "qwen2" else 32
    tensors |= {f"model.layers.{block}.{more}": np.arange(size, dtype=np.float32) for block in range(2)}
    source = write_source(tmp_path / "m", tensors, CONFIG | {"model_type": kind})
    quantize_checkpoint(source, tmp_path / "m.gguf", "Q8_0", "gguf", verify=True)
    fields, found = read(tmp_path / "m.gguf")
    assert fields["general.architecture"] == kind
    expected = gguf.quantize(tensors["model.layers.0.self_attn.q_proj.weight"], gguf.GGMLQuantizationType.Q8_0)
    np.testing.assert_array_equal(found["blk.0.attn_q.weight"].data, expected)
    name = "blk.1.attn_q.bias" if kind == "qwen2" else "blk.1.attn_q_norm.weight"
    np.testing.assert_array_equal(found[name].data, np.arange(size, dtype=np.float32))


def drawn(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Tensors of these names, with dots for double underscores."""
    rng = np.random.default_rng(3)
    return {name.replace("__", "."): rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def test_experts_are_one_tensor_in_their_order_and_their_router_stays_float(tmp_path):
    tensors = llama_tensors()
    block = "model.layers.{}.block_sparse_moe."
    for index in range(2):
        for name in ("gate_proj", "up_proj", "down_proj"):
            del tensors[f"model.layers.{index}.mlp.{name}.weight"]
        more = drawn(**{f"experts__{expert}__w{part}__weight": (64, 128) for expert in range(11) for part in (1, 3)})
        more |= drawn(**{f"experts__{expert}__w2__weight": (128, 64) for expert in range(11)}, gate__weight=(11, 128))
        tensors |= {block.format(index) + name: each for name, each in more.items()}
    config = CONFIG | {"model_type": "mixtral", "num_local_experts": 11, "num_experts_per_tok": 2}
    source = write_source(tmp_path / "m", tensors, config | {"intermediate_size": 64})
    result = quantize_checkpoint(source, tmp_path / "m.gguf", "Q4_0", "gguf", verify=True)
    fields, found = read(tmp_path / "m.gguf")
    assert (fields["llama.expert_count"], fields["llama.expert_used_count"]) == (11, 2)
    experts = found["blk.1.ffn_down_exps.weight"]
    assert list(experts.shape) == [64, 128, 11]
    stacked = np.concatenate([tensors[block.format(1) + f"experts.{expert}.w2.weight"] for expert in range(11)])
    np.testing.assert_array_equal(
        experts.data.reshape(len(stacked), -1), gguf.quantize(stacked, gguf.GGMLQuantizationType.Q4_0)
    )
    router = found["blk.1.ffn_gate_inp.weight"]
    assert router.tensor_type.name == "F32"
    np.testing.assert_array_equal(router.data, tensors[block.format(1) + "gate.weight"])
    assert all(15 < layer.sqnr < 60 or "output" in layer.name for layer in result.verification.worst)


@pytest.mark.parametrize(
    ("lost", "sentence"), [(1, "expected experts numbered from 0, got"), (0, "expected experts of one shape")]
)
def test_experts_that_are_missing_or_of_another_shape_are_told(tmp_path, lost, sentence):
    block = "model.layers.0.block_sparse_moe.experts."
    tensors = llama_tensors() | {f"{block}{index}.w1.weight": np.ones((64, 128), np.float32) for index in range(3)}
    tensors[f"{block}0.w1.weight"] = np.ones((32, 128), np.float32)
    if lost:
        del tensors[f"{block}1.w1.weight"]
    config = CONFIG | {"model_type": "mixtral", "num_local_experts": 3, "num_experts_per_tok": 2}
    with pytest.raises(ModelError, match=sentence):
        quantize_checkpoint(write_source(tmp_path / "m", tensors, config), tmp_path / "m.gguf", "Q4_0", "gguf")


def test_gains_of_gemma_are_told_with_their_one(tmp_path):
    tensors = llama_tensors()
    tensors = {
        name.replace("post_attention_layernorm", "pre_feedforward_layernorm"): each for name, each in tensors.items()
    }
    del tensors["lm_head.weight"]
    gain = "model.layers.0.post_attention_layernorm.weight"
    tensors[gain] = np.arange(128, dtype=np.float32) / 7
    config = CONFIG | {"model_type": "gemma2", "head_dim": 32, "sliding_window": 64, "attn_logit_softcapping": 50.0}
    source = write_source(tmp_path / "m", tensors, config | {"final_logit_softcapping": 30.0})
    quantize_checkpoint(source, tmp_path / "m.gguf", "Q8_0", "gguf", verify=True)
    fields, found = read(tmp_path / "m.gguf")
    np.testing.assert_array_equal(found["blk.0.post_attention_norm.weight"].data, tensors[gain] + 1)
    np.testing.assert_array_equal(found["output_norm.weight"].data, np.full(128, 2, np.float32))
    told = {name: fields[f"gemma2.{name}"] for name in ("attention.sliding_window", "attn_logit_softcapping")}
    assert told == {"attention.sliding_window": 64, "attn_logit_softcapping": 50.0}
    assert fields["gemma2.final_logit_softcapping"] == 30.0


def test_joined_layers_of_phi_keep_their_rows(tmp_path):
    tensors = llama_tensors()
    for index in range(2):
        block = f"model.layers.{index}."
        for joined, parts in (("self_attn.qkv_proj", "qkv"), ("mlp.gate_up_proj", ("gate", "up"))):
            module = joined.partition(".")[0]
            rows = [tensors.pop(f"{block}{module}.{part}_proj.weight") for part in parts]
            tensors[f"{block}{joined}.weight"] = np.concatenate(rows)
    source = write_source(tmp_path / "m", tensors, CONFIG | {"model_type": "phi3"})
    quantize_checkpoint(source, tmp_path / "m.gguf", "Q8_0", "gguf", verify=True)
    _, found = read(tmp_path / "m.gguf")
    for name, whole in (("attn_qkv", "self_attn.qkv_proj"), ("ffn_up", "mlp.gate_up_proj")):
        expected = gguf.quantize(tensors[f"model.layers.1.{whole}.weight"], gguf.GGMLQuantizationType.Q8_0)
        np.testing.assert_array_equal(found[f"blk.1.{name}.weight"].data, expected)
    config = CONFIG | {"model_type": "phi3", "partial_rotary_factor": 0.75}
    source = write_source(tmp_path / "n", tensors, config)
    with pytest.raises(UnsupportedError, match=r"expected heads that turn whole, got partial_rotary_factor 0.75"):
        quantize_checkpoint(source, tmp_path / "n.gguf", "Q8_0", "gguf")


def test_weights_of_gpt2_are_turned_and_its_sizes_are_told_by_their_usual_names(tmp_path):
    shapes: dict[str, tuple[int, ...]] = {"wte__weight": (VOCABULARY, 64), "wpe__weight": (128, 64)}
    shapes |= {"ln_f__weight": (64,), "ln_f__bias": (64,), "h__0__attn__bias": (1, 1, 128, 128)}
    layers = {"attn__c_attn": (64, 192), "attn__c_proj": (64, 64), "mlp__c_fc": (64, 256), "mlp__c_proj": (256, 64)}
    for name, shape in layers.items():
        shapes |= {f"h__0__{name}__weight": shape, f"h__0__{name}__bias": shape[1:]}
    shapes |= {f"h__0__ln_{index}__{part}": (64,) for index in (1, 2) for part in ("weight", "bias")}
    tensors = drawn(**shapes)
    config = {"model_type": "gpt2", "n_embd": 64, "n_head": 2, "n_layer": 1, "n_positions": 128, "n_inner": None}
    config |= {"layer_norm_epsilon": 1e-5, "vocab_size": VOCABULARY}
    source = write_source(tmp_path / "m", tensors, config)
    result = quantize_checkpoint(source, tmp_path / "m.gguf", "Q4_1", "gguf", verify=True)
    fields, found = read(tmp_path / "m.gguf")
    expected = {"context_length": 128, "embedding_length": 64, "feed_forward_length": 256, "block_count": 1}
    assert {name: fields[f"gpt2.{name}"] for name in expected} == expected
    for name, source_name in (("attn_qkv", "attn.c_attn"), ("ffn_down", "mlp.c_proj")):
        turned = np.ascontiguousarray(tensors[f"h.0.{source_name}.weight"].T)
        blocks = gguf.quantize(turned, gguf.GGMLQuantizationType.Q4_1)
        np.testing.assert_array_equal(found[f"blk.0.{name}.weight"].data, blocks)
    np.testing.assert_array_equal(found["position_embd.weight"].data, tensors["wpe.weight"])
    assert len(found) == len(tensors) - 1
    assert min(layer.sqnr for layer in result.verification.layers) > 15


PIECES: dict[str, Any] = {
    "added_tokens": [
        {"id": 0, "content": "<unk>", "special": True},
        {"id": 1, "content": "<s>", "special": True},
        {"id": 2, "content": "[tool]", "special": False},
    ],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace"}]},
    "model": {
        "type": "BPE",
        "byte_fallback": True,
        "unk_token": "<unk>",
        "vocab": {"<unk>": 0, "<s>": 1, "[tool]": 2, "<0x0A>": 3, "ab": 4, "abc": 5, "a": 6, "b": 7, "c": 8, "bc": 9},
        "merges": [["a", "b"], ["b", "c"], ["ab", "c"], ["a", "bc"]],
    },
}


def test_sentencepiece_is_told_by_scores_in_the_order_of_merges(tmp_path):
    quantize_checkpoint(write_source(tmp_path / "m", tokenizer=PIECES), tmp_path / "m.gguf", "Q8_0", "gguf")
    fields, _ = read(tmp_path / "m.gguf")
    assert fields["tokenizer.ggml.model"] == "llama"
    assert fields["tokenizer.ggml.add_space_prefix"] is True
    scores = dict(zip(fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.scores"], strict=True))
    assert [scores[token] for token in ("ab", "bc", "abc")] == [0, -1, -2]
    assert scores["a"] == scores["[tool]"] == np.float32(-1e9)
    assert fields["tokenizer.ggml.token_type"][:6] == [2, 3, 4, 6, 1, 1]
    assert "tokenizer.ggml.merges" not in fields
    without = {**PIECES, "normalizer": {"type": "Replace"}}
    quantize_checkpoint(write_source(tmp_path / "n", tokenizer=without), tmp_path / "n.gguf", "Q8_0", "gguf")
    assert read(tmp_path / "n.gguf")[0]["tokenizer.ggml.add_space_prefix"] is False


def test_merges_that_llama_cpp_would_add_to_are_refused(tmp_path):
    model = PIECES["model"] | {"merges": ["a b", "b c", "ab c"]}
    source = write_source(tmp_path / "m", tokenizer=PIECES | {"model": model})
    with pytest.raises(UnsupportedError, match=r"expected SentencePiece's merges, got none of \('a', 'bc'\)"):
        quantize_checkpoint(source, tmp_path / "m.gguf", "Q8_0", "gguf")


def test_biases_of_queries_are_ordered_as_their_rows(tmp_path):
    tensors = llama_tensors() | {"model.layers.0.self_attn.q_proj.bias": np.arange(128, dtype=np.float32)}
    quantize_checkpoint(write_source(tmp_path / "m", tensors), tmp_path / "m.gguf", "Q8_0", "gguf")
    _, found = read(tmp_path / "m.gguf")
    np.testing.assert_array_equal(found["blk.0.attn_q.bias"].data, interleaved(np.arange(128, dtype=np.float32), HEADS))


def test_every_row_is_an_architecture_of_gguf():
    assert {row.name for row in GGUF_MODELS} <= set(gguf.MODEL_ARCH_NAMES.values())


def test_frequencies_of_llama_3_are_those_of_transformers(tmp_path):
    rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope["original_max_position_embeddings"] = 64
    config = CONFIG | {"rope_scaling": rope}
    factors = rope_factors(config)
    # transformers' rule, one frequency after another.
    for index, factor in enumerate(factors):
        wave = 2 * np.pi * 10000.0 ** (2 * index / 32)
        smooth = (64 / wave - 1) / 3
        middle = 1 / ((1 - smooth) / 8 + smooth)
        assert factor == np.float32(1 if wave < 16 else 8 if wave > 64 else middle)
    assert len(set(factors.tolist())) > 3
    quantize_checkpoint(write_source(tmp_path / "m", config=config), tmp_path / "m.gguf", "Q8_0", "gguf")
    np.testing.assert_array_equal(read(tmp_path / "m.gguf")[1]["rope_freqs.weight"].data, factors)
    assert rope_factors(CONFIG) is None


LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def split_by(pattern: str) -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, {"type": "ByteLevel", "use_regex": False}]}}


def test_splittings_of_text_are_known_by_their_expression():
    assert splitting_of(split_by(LLAMA3), "") == "llama-bpe"
    assert splitting_of(split_by(LLAMA3.replace("{1,3}", "")), "") == "qwen2"
    assert splitting_of({"pre_tokenizer": BYTES}, "") == "gpt-2"
    assert splitting_of(TOKENIZER, "") == "smollm"
    with pytest.raises(UnsupportedError, match=r"t.json: expected a splitting of text that llama.cpp has, got"):
        splitting_of(split_by("x+"), "t.json")


@pytest.mark.parametrize(
    ("change", "kind", "sentence"),
    [
        ({"config": CONFIG | {"model_type": "mamba"}}, UnsupportedError, "expected a model_type among llama, mistral"),
        (
            {"config": CONFIG | {"rms_norm_eps": None}},
            ModelError,
            "expected a number above 0 for rms_norm_eps, got None",
        ),
        ({"config": CONFIG | {"vocab_size": 50}}, ModelError, "expected tokens below 50, got 91"),
        ({"config": CONFIG | {"rope_scaling": {"type": "odd"}}}, UnsupportedError, "got 'odd'"),
        ({"config": CONFIG | {"rope_scaling": [1]}}, ModelError, "expected an object for rope_scaling"),
        (
            {"tokenizer": {"model": {"type": "Unigram"}}},
            UnsupportedError,
            "expected byte-level BPE, or SentencePiece's, got 'Unigram'",
        ),
        ({"tensors": llama_tensors() | {"x.weight": np.ones(3, np.float32)}}, ModelError, "got none of that name"),
    ],
)
def test_what_gguf_cannot_say_is_one_sentence_and_nothing_is_left(tmp_path, change, kind, sentence):
    source = write_source(tmp_path / "m", **change)
    with pytest.raises(kind, match=sentence):
        quantize_checkpoint(source, tmp_path / "m.gguf", "Q4_0", "gguf")
    assert list(tmp_path.iterdir()) == [source]


def test_a_missing_tokenizer_is_told(tmp_path):
    source = write_source(tmp_path / "m")
    (source / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"tokenizer.json: expected a JSON file, got none"):
        quantize_checkpoint(source, tmp_path / "m.gguf", "Q4_0", "gguf")


@pytest.mark.parametrize(
    ("name", "value"),
    [("group_size", 32), ("method", "mse"), ("include", ["x"]), ("exclude", ["x"]), ("resume", True)],
)
def test_options_of_safetensors_are_refused(tmp_path, name, value):
    source = write_source(tmp_path / "m")
    with pytest.raises(ConfigError, match=f"{name}: expected a format of safetensors, got gguf"):
        quantize_checkpoint(source, tmp_path / "m.gguf", "Q4_0", "gguf", **{name: value})


def test_an_unknown_type_and_an_output_that_exists_are_told(tmp_path):
    source = write_source(tmp_path / "m")
    with pytest.raises(ConfigError, match=r"expected one of Q4_0, .* for gguf, got 'Q4_9'; did you mean"):
        quantize_checkpoint(source, tmp_path / "m.gguf", "Q4_9", "gguf")
    (tmp_path / "m.gguf").write_bytes(b"mine")
    with pytest.raises(OutputError, match="which exists; --force replaces it"):
        quantize_checkpoint(source, tmp_path / "m.gguf", "Q4_0", "gguf")
    assert (tmp_path / "m.gguf").read_bytes() == b"mine"
    quantize_checkpoint(source, tmp_path / "m.gguf", "Q4_0", "gguf", force=True)


def test_a_file_that_reads_back_differently_is_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    source = write_source(tmp_path / "m")
    write = gguf.GGUFWriter.write_tensor_data

    def wrong(self, tensor, *more):
        tensor = tensor.copy()
        tensor.reshape(-1)[-1] += 1
        write(self, tensor, *more)

    monkeypatch.setattr(gguf.GGUFWriter, "write_tensor_data", wrong)
    with pytest.raises(ModelError, match="expected the bytes that were meant, got others"):
        quantize_checkpoint(source, tmp_path / "m.gguf", "Q4_0", "gguf")
    assert list(tmp_path.iterdir()) == [source]
