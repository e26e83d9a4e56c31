"""What llama.cpp wants to know of a model, and how it orders its rows: one row for each architecture."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.errors import ModelError, UnsupportedError, shown

__all__ = [
    "GGUF_MODELS",
    "GgufModel",
    "add_metadata",
    "gguf_model_of",
    "number",
    "rope_factors",
    "row_order",
    "usual_names",
]

_LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


@dataclass(frozen=True)
class GgufModel:
    """An architecture of GGUF.

    Attributes:
        name: What GGUF calls it.
        model_types: What config.json calls it.
        interleaved: Whether rows of queries and keys are ordered in pairs, where Hugging Face has halves of a head.
        gains_less_one: Whether the checkpoint's norms hold what is added to 1.
        transposed: Last parts of the names of modules whose weights are ``[inputs, outputs]``.
        renamed: The usual names of sizes -> what config.json calls them.
    """

    name: str
    model_types: tuple[str, ...]
    interleaved: bool = False
    gains_less_one: bool = False
    transposed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()


_OF_GPT2 = (
    ("hidden_size", "n_embd"),
    ("num_attention_heads", "n_head"),
    ("num_hidden_layers", "n_layer"),
    ("max_position_embeddings", "n_positions"),
    ("intermediate_size", "n_inner"),
    ("layer_norm_eps", "layer_norm_epsilon"),
)
GGUF_MODELS = (
    GgufModel("llama", ("llama", "mistral", "mixtral"), interleaved=True),
    GgufModel("qwen2", ("qwen2",)),
    GgufModel("qwen3", ("qwen3",)),
    GgufModel("qwen3moe", ("qwen3_moe",)),
    GgufModel("gemma", ("gemma",), gains_less_one=True),
    GgufModel("gemma2", ("gemma2",), gains_less_one=True),
    GgufModel("gemma3", ("gemma3_text",), gains_less_one=True),
    GgufModel("phi3", ("phi3",)),
    GgufModel("gpt2", ("gpt2",), transposed=("c_attn", "c_proj", "c_fc"), renamed=_OF_GPT2),
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


def usual_names(model: GgufModel, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """config.json with sizes under their usual names.

    Example:
        >>> config = {"n_embd": 8, "n_inner": None}
        >>> found = usual_names(gguf_model_of({"model_type": "gpt2"}), config)
        >>> found["hidden_size"], found["intermediate_size"]
        (8, 32)
    """
    found = {**config, **{usual: config[own] for usual, own in model.renamed if config.get(own) is not None}}
    if model.renamed and "intermediate_size" not in found:  # as transformers has it
        found["intermediate_size"] = 4 * number(found, "hidden_size")
    return found


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

    Args:
        writer: The writer.
        config: What config.json says, under the usual names.
        file_type: GGUF's number for the type of most tensors.
        name: Of the model.

    Raises:
        ModelError: If config.json lacks one.
        UnsupportedError: If positions are scaled in a way that is not known here.
    """
    heads, hidden = number(config, "num_attention_heads"), number(config, "hidden_size")
    head = _head(config)
    writer.add_name(name)
    writer.add_file_type(file_type)
    writer.add_quantization_version(2)
    writer.add_context_length(number(config, "max_position_embeddings"))
    writer.add_embedding_length(hidden)
    writer.add_block_count(number(config, "num_hidden_layers"))
    writer.add_feed_forward_length(number(config, "intermediate_size"))
    writer.add_head_count(heads)
    writer.add_head_count_kv(number(config, "num_key_value_heads", heads))
    writer.add_vocab_size(number(config, "vocab_size"))
    if config.get("layer_norm_eps") is not None:
        writer.add_layer_norm_eps(number(config, "layer_norm_eps"))
        return  # GPT-2's positions are learned
    writer.add_layer_norm_rms_eps(number(config, "rms_norm_eps"))
    writer.add_rope_dimension_count(head)
    writer.add_key_length(head)
    writer.add_value_length(head)
    _add_positions(writer, config)
    for key, add in (
        ("sliding_window", writer.add_sliding_window),
        ("attn_logit_softcapping", writer.add_attn_logit_softcapping),
        ("final_logit_softcapping", writer.add_final_logit_softcapping),
        ("num_local_experts", writer.add_expert_count),
        ("num_experts", writer.add_expert_count),
        ("num_experts_per_tok", writer.add_expert_used_count),
        ("moe_intermediate_size", writer.add_expert_feed_forward_length),
    ):
        if config.get(key) is not None and (key != "sliding_window" or config.get("use_sliding_window", True)):
            add(number(config, key))


def _head(config: Mapping[str, Any]) -> int:
    """Values of a head."""
    if config.get("head_dim") is not None:
        return int(number(config, "head_dim"))
    return int(number(config, "hidden_size") // number(config, "num_attention_heads"))


def _add_positions(writer: Any, config: Mapping[str, Any]) -> None:
    rope = _rope(config)
    turned = rope.get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if turned not in (None, 1, 1.0):
        raise UnsupportedError(f"gguf: expected heads that turn whole, got partial_rotary_factor {shown(turned)}")
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
    head = _head(config)
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
    # Gemma 3 has others for layers that see a window, which llama.cpp knows by itself.
    whole = found.get("full_attention", found)
    return whole if isinstance(whole, dict) else {}


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
