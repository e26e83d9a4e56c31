"""A checkpoint as Hugging Face publishes it: a folder with config.json, safetensors in one file or in shards, ..."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quarkfast.checkpoint.safetensors_files import StoredTensor, read_shard
from quarkfast.errors import ModelError, shown

__all__ = ["CONFIG", "INDEX", "ONE_FILE", "CheckpointFolder", "read_folder", "read_json"]

CONFIG = "config.json"
ONE_FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")
_LARGEST_JSON = 256 << 20  # bytes; the largest tokenizer.json that was seen has 35 MB


@dataclass(frozen=True, eq=False)
class CheckpointFolder:
    """A checkpoint, its tensors mapped into memory.

    Attributes:
        path: The folder.
        config: What config.json says.
        shards: File name -> its tensors, in the order of the file.
        others: The other files of the folder, which go with the weights: tokenizer, generation config, ...
    """

    path: Path
    config: Mapping[str, Any]
    shards: Mapping[str, tuple[StoredTensor, ...]]
    others: tuple[Path, ...]

    @property
    def tensors(self) -> dict[str, StoredTensor]:
        """Name -> tensor, of all shards."""
        return {tensor.name: tensor for shard in self.shards.values() for tensor in shard}


def read_folder(path: Path) -> CheckpointFolder:
    """Opens a checkpoint.

    Raises:
        ModelError: If it is no folder, or its files are missing, broken or at odds with each other, or its weights
            are pickled, which would run code of the author's.
    """
    if not path.is_dir():
        raise ModelError(f"{path}: expected a folder of a checkpoint, got {'a file' if path.exists() else 'none'}")
    config = read_json(path / CONFIG)
    shards = {name: read_shard(path / name) for name in _shard_names(path)}
    _check_names(path, shards)
    if (path / INDEX).is_file() and ONE_FILE not in shards:
        _check_index(path, shards)
    files = sorted(each for each in path.iterdir() if each.is_file() and not each.name.startswith("."))
    left = (".safetensors", ".gguf", ".msgpack", ".h5", *_PICKLES)
    others = [each for each in files if each.suffix not in left and each.name not in (CONFIG, INDEX)]
    others = [each for each in others if not each.name.endswith((".safetensors.index.json", ".bin.index.json"))]
    return CheckpointFolder(path, config, shards, tuple(others))


def read_json(path: Path) -> dict[str, Any]:
    """Reads a file that holds one JSON object.

    Raises:
        ModelError: If it is missing, or something else.
    """
    if not path.is_file():
        raise ModelError(f"{path}: expected a JSON file, got none")
    if path.stat().st_size > _LARGEST_JSON:
        raise ModelError(f"{path}: expected JSON of at most {_LARGEST_JSON} bytes, got {path.stat().st_size}")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelError(f"{path}: expected JSON, got {shown(str(error))}") from error
    if not isinstance(found, dict):
        raise ModelError(f"{path}: expected a JSON object, got {type(found).__name__}")
    return found


def _shard_names(path: Path) -> list[str]:
    """The files of weights: of the index where there is one, else the only one."""
    if (path / ONE_FILE).is_file():
        return [ONE_FILE]
    if (path / INDEX).is_file():
        return sorted(set(_weight_map(path).values()))
    found = sorted(each.name for each in path.glob("*.safetensors"))
    if len(found) == 1:
        return found
    if found:
        raise ModelError(f"{path}: expected {ONE_FILE} or {INDEX}, got {len(found)} files of safetensors and no index")
    if any(each.suffix in _PICKLES for each in path.iterdir()):
        raise ModelError(
            f"{path}: expected weights as safetensors, got a pickled checkpoint, which runs code when it is read; "
            "convert it with transformers' save_pretrained first"
        )
    raise ModelError(f"{path}: expected {ONE_FILE} or {INDEX}, got neither")


def _weight_map(path: Path) -> dict[str, str]:
    """Tensor -> file, as the index says, held against what may be a file name."""
    found = read_json(path / INDEX).get("weight_map")
    if not isinstance(found, dict) or not found or not all(isinstance(each, str) for each in found.values()):
        raise ModelError(f"{path / INDEX}: expected weight_map from tensors to files, got {shown(found)}")
    for name in sorted(set(found.values())):
        if Path(name).name != name or "\\" in name or not name.endswith(".safetensors") or name.startswith("."):
            raise ModelError(f"{path / INDEX}: expected names of safetensors in this folder, got {shown(name)}")
        if not (path / name).is_file():
            raise ModelError(f"{path / INDEX}: expected every shard beside it, got none named {shown(name)}")
    return found


def _check_names(path: Path, shards: Mapping[str, tuple[StoredTensor, ...]]) -> None:
    seen: dict[str, str] = {}
    for file, tensors in shards.items():
        for tensor in tensors:
            if tensor.name in seen:
                both = f"{seen[tensor.name]} and {file}"
                raise ModelError(f"{path}: expected each tensor in one shard, got {shown(tensor.name)} in {both}")
            seen[tensor.name] = file
    if not seen:
        raise ModelError(f"{path}: expected tensors, got none")


def _check_index(path: Path, shards: Mapping[str, tuple[StoredTensor, ...]]) -> None:
    listed = _weight_map(path)
    there = {tensor.name: file for file, tensors in shards.items() for tensor in tensors}
    for name, file in listed.items():
        if there.get(name) != file:
            raise ModelError(f"{path / INDEX}: expected {shown(name)} in {shown(file)}, got {shown(there.get(name))}")
    for name in there.keys() - listed.keys():
        raise ModelError(f"{path / INDEX}: expected every tensor of the shards, got none named {shown(name)}")
