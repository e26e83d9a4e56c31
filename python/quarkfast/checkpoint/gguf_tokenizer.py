"""A tokenizer of Hugging Face's as metadata of a GGUF file."""

from __future__ import annotations

import json
import re
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
_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = range(1, 7)
_BYTES = re.compile("<0x[0-9A-F]{2}>")
_NEVER = -1e9  # the score of tokens that nothing makes


def add_tokenizer(writer: Any, folder: Path, vocabulary: int) -> None:
    """Tells a ``gguf.GGUFWriter`` the tokens, their merges or scores, the special ones and the template of chats.

    Args:
        writer: The writer.
        folder: Of the checkpoint.
        vocabulary: Rows of the embedding; tokens that the tokenizer lacks become unused ones.

    Raises:
        ModelError: If there is no tokenizer.json, or it is broken or has more tokens.
        UnsupportedError: If it is neither byte-level BPE nor SentencePiece's, or splits text in a way that is not known
            here.
    """
    import gguf

    path = folder / _FILE
    found = read_json(path)
    model = found.get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE":
        kind = model.get("type") if isinstance(model, dict) else model
        raise UnsupportedError(f"{path}: expected byte-level BPE, or SentencePiece's, got {shown(kind)}")
    pieces = bool(model.get("byte_fallback"))
    added = {each["id"]: each for each in found.get("added_tokens") or ()}
    tokens = {index: token for token, index in model["vocab"].items()} | {i: row["content"] for i, row in added.items()}
    if tokens and max(tokens) >= vocabulary:
        raise ModelError(f"{path}: expected tokens below {vocabulary}, got {max(tokens)}")
    kinds = {index: _CONTROL if row.get("special") else _USER for index, row in added.items()}
    if pieces:
        kinds |= {index: _BYTE for index, token in tokens.items() if _BYTES.fullmatch(token)}
        kinds |= {index: _UNKNOWN for index, token in tokens.items() if token == model.get("unk_token")}
        scores = _scores(model, str(path))
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_add_space_prefix(_puts_a_space_first(found))
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(splitting_of(found, str(path)))
    writer.add_token_list([tokens.get(index, f"[PAD{index}]") for index in range(vocabulary)])
    if pieces:
        writer.add_token_scores([scores.get(tokens.get(index, ""), _NEVER) for index in range(vocabulary)])
    kept = [kinds.get(index, _NORMAL) if index in tokens else _UNUSED for index in range(vocabulary)]
    writer.add_token_types(kept)
    special = gguf.SpecialVocab(folder, load_merges=not pieces, n_vocab=vocabulary)
    special.add_special_token.setdefault("bos", False)
    special.add_to_gguf(writer, quiet=True)


def _scores(model: Mapping[str, Any], where: str) -> dict[str, float]:
    """Token -> its score, by which llama.cpp merges: the earlier the first merge that makes it, the greater.

    llama.cpp joins any two tokens whose text is a token's, where the merges of tokenizer.json name pairs: both are the
    same only where every such pair is named, as transformers names those of SentencePiece.

    Raises:
        UnsupportedError: If a pair is not named.
    """
    pairs = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in model["merges"]]
    scores: dict[str, float] = {}
    for rank, pair in enumerate(pairs):
        scores.setdefault("".join(pair), -float(rank))
    named, tokens = set(pairs), model["vocab"]
    for token in scores:
        for cut in range(1, len(token)):
            pair = (token[:cut], token[cut:])
            if pair not in named and pair[0] in tokens and pair[1] in tokens:
                raise UnsupportedError(f"{where}: expected SentencePiece's merges, got none of {shown(pair)}")
    return scores


def _puts_a_space_first(tokenizer: Mapping[str, Any]) -> bool:
    steps: list[Any] = []
    for key, parts in (("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers")):
        step = tokenizer.get(key) or {}
        steps += step.get(parts, [step])
    prepends = any(step.get("type") == "Prepend" for step in steps)
    return prepends or any(
        step.get("type") == "Metaspace" and step.get("prepend_scheme", "always") != "never" for step in steps
    )


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
