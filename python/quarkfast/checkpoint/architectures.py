"""Which tensors of a language model are its linear layers: one row for each architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quarkfast.errors import ModelError

__all__ = ["ARCHITECTURES", "LEFT", "UNKNOWN", "Architecture", "architecture_of"]

_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
_GATED = ("gate_proj", "up_proj", "down_proj")
_QKV = ("q_proj", "k_proj", "v_proj")
_GATE_UP = ("gate_proj", "up_proj")


@dataclass(frozen=True)
class Architecture:
    """The names of one family of models.

    Attributes:
        name: What it is called.
        model_types: What config.json calls it in ``model_type``.
        layers: Last parts of the names of modules that are linear layers of a block; empty for every matrix.
        fused: Layers of one module that runtimes join into one matrix.
        transposed: Whether a weight is stored as ``[inputs, outputs]``.
    """

    name: str
    model_types: tuple[str, ...]
    layers: tuple[str, ...]
    fused: tuple[tuple[str, ...], ...] = ()
    transposed: bool = False


#: Layers that stay float unless they are asked for: heads, embeddings, and what chooses between experts.
LEFT = ("lm_head", "embed_out", "embed_tokens", "embed_positions", "wte", "wpe", "router", "shared_expert_gate")

UNKNOWN = Architecture("unknown", (), ())

ARCHITECTURES = (
    Architecture(
        "llama",
        (
            "llama",
            "mistral",
            "qwen2",
            "qwen3",
            "gemma",
            "gemma2",
            "gemma3_text",
            "smollm3",
            "granite",
            "olmo2",
            "stablelm",
        ),
        (*_ATTENTION, *_GATED),
        (_QKV, _GATE_UP),
    ),
    Architecture("phi", ("phi",), (*_QKV, "dense", "fc1", "fc2"), (_QKV,)),
    Architecture("phi3", ("phi3",), ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")),
    Architecture("gpt2", ("gpt2",), ("c_attn", "c_proj", "c_fc"), transposed=True),
    Architecture("opt", ("opt",), (*_QKV, "out_proj", "fc1", "fc2"), (_QKV,)),
    Architecture("mixtral", ("mixtral",), (*_ATTENTION, "w1", "w2", "w3"), (_QKV, ("w1", "w3"))),
    Architecture("qwen_moe", ("qwen2_moe", "qwen3_moe"), (*_ATTENTION, *_GATED), (_QKV, _GATE_UP)),
)
_BY_TYPE = {kind: row for row in ARCHITECTURES for kind in row.model_types}


def architecture_of(config: Mapping[str, Any], where: str) -> Architecture:
    """The row that config.json names, or `UNKNOWN`.

    Raises:
        ModelError: If config.json names none at all.

    Example:
        >>> architecture_of({"model_type": "qwen2"}, "config.json").name
        'llama'
    """
    kind = config.get("model_type")
    if not isinstance(kind, str) and not config.get("architectures"):
        raise ModelError(f"{where}: expected model_type or architectures, got neither")
    return _BY_TYPE.get(str(kind), UNKNOWN)
