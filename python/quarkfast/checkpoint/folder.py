"""A checkpoint as Hugging Face publishes it: a folder with config.json, safetensors in one file or in shards, ..."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from quarkfast.checkpoint.safetensors_files import StoredTensor, read_shard
from quarkfast.errors import ModelError, OutputError, shown

__all__ = [
    "CONFIG",
    "INDEX",
    "ONE_FILE",
    "CheckpointFolder",
    "OutputFolder",
    "check_free",
    "check_output_folder",
    "output_folder",
    "read_folder",
    "read_json",
]

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
    seen: dict[str, str] = {}
    for file, tensors in shards.items():
        for tensor in tensors:
            if tensor.name in seen:
                both = f"{seen[tensor.name]} and {file}"
                raise ModelError(f"{path}: expected each tensor in one shard, got {shown(tensor.name)} in {both}")
            seen[tensor.name] = file
    if not seen:
        raise ModelError(f"{path}: expected tensors, got none")
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


def _check_index(path: Path, shards: Mapping[str, tuple[StoredTensor, ...]]) -> None:
    listed = _weight_map(path)
    there = {tensor.name: file for file, tensors in shards.items() for tensor in tensors}
    for name, file in listed.items():
        if there.get(name) != file:
            raise ModelError(f"{path / INDEX}: expected {shown(name)} in {shown(file)}, got {shown(there.get(name))}")
    for name in there.keys() - listed.keys():
        raise ModelError(f"{path / INDEX}: expected every tensor of the shards, got none named {shown(name)}")


_FINGERPRINT = ".quarkfast.json"


def check_output_folder(output: Path, source: Path, *, force: bool, needed: int) -> None:
    """Makes sure that a folder can be written, before any work is done.

    Args:
        output: The folder that shall appear.
        source: The checkpoint that is read.
        force: Whether an older checkpoint in its place may be replaced.
        needed: Bytes that it will have.

    Raises:
        OutputError: If it cannot.
    """
    parent = output.absolute().parent
    if not parent.is_dir():
        raise OutputError(f"output: expected an existing folder, got {str(parent)!r}")
    here, there = output.absolute().resolve(), source.absolute().resolve()
    if here == there or here in there.parents or there in here.parents:
        raise OutputError(f"output: expected a folder apart from the source, got {str(output)!r}")
    if output.exists():
        if not force:
            raise OutputError(f"output: expected a new folder, got {str(output)!r}, which exists; --force replaces it")
        if not output.is_dir() or (any(output.iterdir()) and not (output / CONFIG).is_file()):
            raise OutputError(f"output: expected a checkpoint or nothing to replace, got {str(output)!r}")
    check_free(parent, needed)


def check_free(folder: Path, needed: int) -> None:
    """Makes sure that a disk has room.

    Raises:
        OutputError: If it has not.
    """
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OutputError(f"output: expected {needed} free bytes in {str(folder)!r}, got {free}")


class OutputFolder:
    """The folder while it is written, under a name of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def has(self, name: str, size: int) -> bool:
        """Whether a file of an earlier run is finished there."""
        path = self.path / name
        return path.is_file() and path.stat().st_size == size

    def write(self, name: str, write: Callable[[IO[bytes]], None]) -> None:
        """Writes a file, which has its name only once it is whole."""
        half = self.path / f"{name}.half"
        with half.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        half.replace(self.path / name)

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Writes a JSON file."""
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        self.write(name, lambda file: _write(file, text.encode()))


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(data)


@contextlib.contextmanager
def output_folder(output: Path, *, resume: bool, fingerprint: Mapping[str, Any]) -> Iterator[OutputFolder]:
    """A folder to write to, which takes its name when the block ends well and is gone when it does not.

    Args:
        output: Its name.
        resume: Keep what an interrupted run of the same `fingerprint` finished, and keep it again when interrupted.
        fingerprint: What the result depends on.

    Raises:
        OutputError: If it cannot be written.
    """
    partial = output.absolute().with_name(f".{output.name}.partial")
    try:
        if partial.exists() and not (resume and _fingerprint(partial) == fingerprint):
            shutil.rmtree(partial)
        partial.mkdir(exist_ok=True)
        folder = OutputFolder(partial)
        folder.write_json(_FINGERPRINT, fingerprint)
        yield folder
        (partial / _FINGERPRINT).unlink()
        _take_place(partial, output)
    except BaseException as error:
        if not resume:
            shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError):
            raise OutputError(f"output: expected to write {str(output)!r}, got {error.strerror}") from error
        raise


def _fingerprint(partial: Path) -> Any:
    try:
        return json.loads((partial / _FINGERPRINT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _take_place(partial: Path, output: Path) -> None:
    if not output.exists():
        partial.rename(output)
        return
    old = output.absolute().with_name(f".{output.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    output.rename(old)
    partial.rename(output)
    shutil.rmtree(old)
