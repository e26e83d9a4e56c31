"""A tokenizer of Hugging Face's as metadata of a GGUF file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quarkfast.checkpoint.folder import read_json
from quarkfast.errors import ModelError, UnsupportedError, shown

__all__ = ["add_tokenizer", "splitting_of"]

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
