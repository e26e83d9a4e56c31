"""Which tensors of a language model are its linear layers: one row for each architecture."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quarkfast.checkpoint.weights import FloatWeight
from quarkfast.errors import ConfigError, ModelError, did_you_mean, shown

__all__ = ["ARCHITECTURES", "LEFT", "UNKNOWN", "Architecture", "Selection", "architecture_of", "select_layers"]

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


@dataclass(frozen=True)
class Selection:
    """The layers of a checkpoint, told apart.

    Attributes:
        quantized: Modules whose weight is quantized, in the order of the files.
        left: Modules with a matrix that stays float.
        fused: Module -> the modules that runtimes join it with, itself among them; only where there are several.
        by_pattern: Whether the architecture is unknown, so that every matrix was taken.
    """

    quantized: tuple[str, ...]
    left: tuple[str, ...]
    fused: Mapping[str, tuple[str, ...]]
    by_pattern: bool


def select_layers(
    weights: Mapping[str, FloatWeight],
    architecture: Architecture,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> Selection:
    """Chooses layers by the row of the architecture, then by patterns.

    Args:
        weights: The float tensors by name.
        architecture: The row; one without layers takes every matrix but heads, embeddings and routers.
        include: Names or globs of modules to take besides.
        exclude: Names or globs of modules to leave.

    Raises:
        ConfigError: If a pattern matches nothing, or leaves a part of what runtimes join.
        ModelError: If nothing is left to quantize.
    """
    modules = [name.removesuffix(".weight") for name, each in weights.items() if _is_matrix(name, each)]
    taken = {module for module in modules if _is_layer(module, architecture)}
    taken |= _matched(include, modules, "include")
    taken -= _matched(exclude, modules, "exclude")
    if not taken:
        raise ModelError(
            f"checkpoint: expected linear layers, got none among {len(modules)} matrices; name some by include"
        )
    fused: dict[str, tuple[str, ...]] = {}
    for parts in architecture.fused:
        for module in modules:
            parent, _, last = module.rpartition(".")
            group = tuple(each for each in (f"{parent}.{part}" for part in parts) if each in modules)
            if last != parts[0] or len(group) < 2:
                continue
            inside = [each for each in group if each in taken]
            if inside and len(inside) < len(group):
                alone = next(each for each in group if each not in taken)
                joined = ", ".join(map(shown, group))
                raise ConfigError(f"exclude: expected all or none of what runtimes join, {joined}, got {shown(alone)}")
            if inside:
                fused.update(dict.fromkeys(group, group))
    quantized = tuple(module for module in modules if module in taken)
    left = tuple(module for module in modules if module not in taken)
    return Selection(quantized, left, fused, not architecture.layers)


def _is_matrix(name: str, weight: FloatWeight) -> bool:
    return name.endswith(".weight") and len(weight.shape) == 2


def _is_layer(module: str, architecture: Architecture) -> bool:
    parts = module.split(".")
    if architecture.layers:
        return parts[-1] in architecture.layers
    is_router = parts[-1] == "gate"  # of experts; a gate of a gated layer is called gate_proj
    return parts[-1] not in LEFT and "embed" not in parts[-1] and "norm" not in parts[-1] and not is_router


def _matched(patterns: Sequence[str], modules: Sequence[str], where: str) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        matched = fnmatch.filter(modules, pattern)
        if not matched:
            raise ConfigError(f"{where}: expected the name of a layer, got {pattern!r}{did_you_mean(pattern, modules)}")
        found.update(matched)
    return found
