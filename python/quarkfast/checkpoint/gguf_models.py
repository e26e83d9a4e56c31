"""What llama.cpp wants to know of a model, and how it orders its rows: one row for each architecture."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.checkpoint.folder import read_json
from quarkfast.errors import ModelError, UnsupportedError, shown

__all__ = [
    "GGUF_MODELS",
    "GgufModel",
    "add_metadata",
    "add_tokenizer",
    "gguf_model_of",
    "number",
    "rope_factors",
    "row_order",
    "splitting_of",
]

_LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


@dataclass(frozen=True)
class GgufModel:
    """An architecture of GGUF.

    Attributes:
        name: What GGUF calls it.
        model_types: What config.json calls it.
        interleaved: Whether rows of queries and keys are ordered in pairs, where Hugging Face has halves of a head.
    """

    name: str
    model_types: tuple[str, ...]
    interleaved: bool = False


GGUF_MODELS = (
    GgufModel("llama", ("llama", "mistral"), interleaved=True),
    GgufModel("qwen2", ("qwen2",)),
    GgufModel("qwen3", ("qwen3",)),
)


def gguf_model_of(config: Mapping[str, Any]) -> GgufModel:
    """The row of a model.

    Raises:
        UnsupportedError: If there is none.
    """
    kind = config.get("model_type")
    for row in GGUF_MODELS:
        if kind in row.model_types:
            return row
    known = ", ".join(each for row in GGUF_MODELS for each in row.model_types)
    raise UnsupportedError(f"gguf: expected a model_type among {known}, got {shown(kind)}")


def number(config: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """A number of config.json.

    Raises:
        ModelError: If it is missing, or no number above zero.
    """
    value = config.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ModelError(f"config.json: expected a number above 0 for {name}, got {shown(value)}")
    return value


def add_metadata(writer: Any, config: Mapping[str, Any], file_type: int, name: str) -> None:
    """Tells a ``gguf.GGUFWriter`` the sizes of a model.

    Raises:
        ModelError: If config.json lacks one.
        UnsupportedError: If positions are scaled in a way that is not known here.
    """
    heads, hidden = number(config, "num_attention_heads"), number(config, "hidden_size")
    head = number(config, "head_dim", hidden // heads) if config.get("head_dim") is not None else hidden // heads
    writer.add_name(name)
    writer.add_file_type(file_type)
    writer.add_quantization_version(2)
    writer.add_context_length(number(config, "max_position_embeddings"))
    writer.add_embedding_length(hidden)
    writer.add_block_count(number(config, "num_hidden_layers"))
    writer.add_feed_forward_length(number(config, "intermediate_size"))
    writer.add_head_count(heads)
    writer.add_head_count_kv(number(config, "num_key_value_heads", heads))
    writer.add_layer_norm_rms_eps(number(config, "rms_norm_eps"))
    writer.add_vocab_size(number(config, "vocab_size"))
    writer.add_rope_dimension_count(head)
    writer.add_key_length(head)
    writer.add_value_length(head)
    rope = _rope(config)
    writer.add_rope_freq_base(float(number({**config, **rope}, "rope_theta", 10000.0)))
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "linear":
        import gguf

        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(float(number(rope, "factor")))
    elif kind not in ("default", "llama3"):
        raise UnsupportedError(f"gguf: expected positions scaled as default, linear or llama3, got {shown(kind)}")


def rope_factors(config: Mapping[str, Any]) -> NDArray[np.float32] | None:
    """What Llama 3 divides the frequencies of positions by, or None for other models.

    Source:
        transformers' ``_compute_llama3_parameters``.
    """
    rope = _rope(config)
    if rope.get("rope_type", rope.get("type")) != "llama3":
        return None
    factor, low, high, context = (float(number(rope, name)) for name in _LLAMA3)
    heads, hidden = number(config, "num_attention_heads"), number(config, "hidden_size")
    head = config.get("head_dim") or hidden // heads
    base = float(number({**config, **rope}, "rope_theta", 10000.0))
    wave = 2 * math.pi * base ** (np.arange(0, head, 2) / head)
    smooth = (context / wave - low) / (high - low)
    middle = 1 / ((1 - smooth) / factor + smooth)
    found = np.where(wave < context / high, 1.0, np.where(wave > context / low, factor, middle))
    return found.astype(np.float32)


def _rope(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """How positions turn, as transformers 5 and the versions before have it."""
    found = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(found, dict):
        raise ModelError(f"config.json: expected an object for rope_scaling, got {shown(found)}")
    return found


def row_order(model: GgufModel, config: Mapping[str, Any], module: str) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """What brings the rows of a weight or a bias into GGUF's order."""
    last = module.rpartition(".")[2]
    if not model.interleaved or last not in ("q_proj", "k_proj"):
        return lambda array: array
    heads = number(config, "num_attention_heads")
    count = heads if last == "q_proj" else number(config, "num_key_value_heads", heads)

    def order(array: NDArray[Any]) -> NDArray[Any]:
        if array.shape[0] % (2 * count):
            raise ModelError(f"{shown(module)}: expected rows of {count} heads of even size, got {array.shape[0]}")
        halves = array.reshape(count, 2, array.shape[0] // count // 2, *array.shape[1:])
        return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(array.shape)

    return order


_FILE = "tokenizer.json"
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# The expression by which a tokenizer splits text before it merges bytes -> what llama.cpp calls it.
_SPLITTINGS = {
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _REST: "llama-bpe",
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _REST: "qwen2",
}
_NORMAL, _CONTROL, _USER, _UNUSED = 1, 3, 4, 5


def add_tokenizer(writer: Any, folder: Path, vocabulary: int) -> None:
    """Tells a ``gguf.GGUFWriter`` the tokens, their merges, the special ones and the template of chats.

    Args:
        writer: The writer.
        folder: Of the checkpoint.
        vocabulary: Rows of the embedding; tokens that the tokenizer lacks become unused ones.

    Raises:
        ModelError: If there is no tokenizer.json, or it is broken or has more tokens.
        UnsupportedError: If it is none of byte-level BPE, or splits text in a way that is not known here.
    """
    import gguf

    found = read_json(folder / _FILE)
    model = found.get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE" or model.get("byte_fallback"):
        kind = model.get("type") if isinstance(model, dict) else model
        raise UnsupportedError(f"{folder / _FILE}: expected byte-level BPE, got {shown(kind)}")
    added = {each["id"]: each for each in found.get("added_tokens") or ()}
    tokens = {index: token for token, index in model["vocab"].items()} | {i: row["content"] for i, row in added.items()}
    if tokens and max(tokens) >= vocabulary:
        raise ModelError(f"{folder / _FILE}: expected tokens below {vocabulary}, got {max(tokens)}")
    kinds = {index: _CONTROL if row.get("special") else _USER for index, row in added.items()}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(splitting_of(found, str(folder / _FILE)))
    writer.add_token_list([tokens.get(index, f"[PAD{index}]") for index in range(vocabulary)])
    kept = [kinds.get(index, _NORMAL) if index in tokens else _UNUSED for index in range(vocabulary)]
    writer.add_token_types(kept)
    special = gguf.SpecialVocab(folder, load_merges=True, n_vocab=vocabulary)
    special.add_special_token.setdefault("bos", False)
    special.add_to_gguf(writer, quiet=True)


def splitting_of(tokenizer: Mapping[str, Any], where: str) -> str:
    """What llama.cpp calls the way in which a tokenizer splits text.

    Raises:
        UnsupportedError: If it is not known.

    Example:
        >>> splitting_of({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}}, "tokenizer.json")
        'gpt-2'
    """
    first = tokenizer.get("pre_tokenizer") or {}
    steps = first.get("pretokenizers", [first])
    names = [step.get("type") for step in steps]
    if names == ["ByteLevel"] and steps[0].get("use_regex", True):
        return "gpt-2"
    if names == ["Digits", "ByteLevel"] and steps[0].get("individual_digits"):
        return "smollm"
    if names == ["Split", "ByteLevel"]:
        pattern = steps[0].get("pattern", {}).get("Regex")
        if pattern in _SPLITTINGS:
            return _SPLITTINGS[pattern]
    raise UnsupportedError(f"{where}: expected a splitting of text that llama.cpp has, got {shown(json.dumps(first))}")
