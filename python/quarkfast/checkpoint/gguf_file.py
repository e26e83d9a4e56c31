"""A checkpoint in, a GGUF file for llama.cpp out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from quarkfast.checkpoint.folder import CheckpointFolder
from quarkfast.checkpoint.gguf_models import (
    add_metadata,
    gguf_model_of,
    number,
    rope_factors,
    row_order,
    usual_names,
)
from quarkfast.checkpoint.gguf_tokenizer import add_tokenizer
from quarkfast.checkpoint.rounding import largest_magnitude
from quarkfast.checkpoint.weights import float_weights
from quarkfast.errors import ConfigError, DependencyError, ModelError, OutputError, did_you_mean, shown
from quarkfast.kernels import cast, quantize_gguf
from quarkfast.kernels.gguf import GGUF_TYPES

__all__ = ["GGUF_PRESETS", "GgufPlan", "GgufTensor", "gguf_preset", "write_gguf"]

#: Presets of GGUF: the types of blocks, and two of floats.
GGUF_PRESETS = (*GGUF_TYPES, "F16", "BF16")
_FILE_TYPES = {
    **{"F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K": 12},
    **{"Q4_K": 15, "Q5_K": 17, "Q6_K": 18, "BF16": 32},
}
# What llama.cpp wants as float32: positions, and what chooses between experts.
_KEPT = ("position_embd.weight", "ffn_gate_inp.weight")
# Constant masks that old checkpoints of GPT-2 hold.
_MASKS = (".attn.bias", ".attn.masked_bias")
_EXPERT = re.compile(r"(.+\.experts)\.(\d+)\.(.+)")
# Where rows are no multiple of 256, as llama.cpp has it.
_SMALLER_BLOCKS = {"Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
_PLAIN: dict[str, np.dtype[Any]] = {
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}


@dataclass(frozen=True)
class GgufTensor:
    """A tensor of the file.

    Attributes:
        name: As GGUF has it.
        sources: Of the checkpoint: one, the experts' in order, or none of one that is computed.
        type: Of GGUF.
        shape: Of its values.
        make: Computes its bytes, uint8 or a plain float, ``[rows, bytes]``.
    """

    name: str
    sources: tuple[str, ...]
    type: str
    shape: tuple[int, ...]
    make: Callable[[], NDArray[Any]]

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        values = math.prod(self.shape)
        if self.type in _PLAIN:
            return values * _PLAIN[self.type].itemsize
        row = GGUF_TYPES[self.type]
        return values // row.values * row.bytes


def gguf_preset(preset: str) -> str:
    """The type of a preset's name, whatever its case.

    Raises:
        ConfigError: If GGUF has none of that name.

    Example:
        >>> gguf_preset("q4_0")
        'Q4_0'
    """
    if preset.upper() in GGUF_PRESETS:
        return preset.upper()
    aliases = {"FLOAT16": "F16", "BFLOAT16": "BF16"}
    if preset.upper() in aliases:
        return aliases[preset.upper()]
    known = ", ".join(GGUF_PRESETS)
    raise ConfigError(f"preset: expected one of {known} for gguf, got {preset!r}{did_you_mean(preset, GGUF_PRESETS)}")


class GgufPlan:
    """A checkpoint and the tensors that a GGUF file has of it.

    Attributes:
        folder: The source.
        config: What config.json says, under the usual names.
        weights: Its float tensors.
        type: Of the layers.
        tensors: In the order of the file.
        notes: What should be known.
    """

    def __init__(self, folder: CheckpointFolder, preset: str) -> None:
        self.folder, self.type = folder, gguf_preset(preset)
        self.model = gguf_model_of(folder.config)
        self.config = usual_names(self.model, folder.config)
        self.weights = float_weights(folder)
        names = _names(self.model.name, number(self.config, "num_hidden_layers"))
        self.notes: list[str] = []
        tied = bool(self.config.get("tie_word_embeddings")) or "lm_head.weight" not in self.weights
        left = {"lm_head.weight"} if tied else set()
        left |= {name for name in self.weights if name.endswith(_MASKS)}
        stacks = _stacks(name for name in self.weights if name not in left)
        self.tensors = [self._tensor(name, sources, names, tied) for name, sources in stacks.items()]
        factors = rope_factors(self.config)
        if factors is not None:
            self.tensors.append(GgufTensor("rope_freqs.weight", (), "F32", factors.shape, lambda: factors))

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors."""
        return sum(tensor.nbytes for tensor in self.tensors)

    def _tensor(
        self, name: str, sources: tuple[str, ...], names: Callable[[str], str | None], tied: bool
    ) -> GgufTensor:
        found, one = names(name), self.weights[sources[0]].shape
        if found is None:
            raise ModelError(f"{shown(name)}: expected a tensor of GGUF's {self.model.name}, got none of that name")
        if any(self.weights[each].shape != one for each in sources):
            raise ModelError(f"{shown(name)}: expected experts of one shape, got several")
        shape = one[::-1] if self._is_transposed(sources[0]) else one
        kind = self._type(found, shape, tied)
        whole = shape if sources == (name,) else (len(sources), *shape)
        return GgufTensor(found, sources, kind, whole, lambda: self._encoded(sources, kind))

    def _is_transposed(self, source: str) -> bool:
        module, _, last = source.rpartition(".")
        return last == "weight" and module.rpartition(".")[2] in self.model.transposed

    def order_of(self, source: str) -> Callable[[NDArray[Any]], NDArray[Any]]:
        """What brings the rows of a tensor of the checkpoint into GGUF's order."""
        return row_order(self.model, self.config, source.removesuffix(".weight").removesuffix(".bias"))

    def chunks(self, source: str) -> Iterator[NDArray[np.float32]]:
        """The rows of a matrix of the checkpoint, outputs first, a few megabytes at a time."""
        weight = self.weights[source]
        if self._is_transposed(source):
            yield np.ascontiguousarray(weight.rows(0, weight.shape[0]).T)
        else:
            yield from (rows for _, rows in weight.chunks())

    def _encoded(self, sources: Sequence[str], kind: str) -> NDArray[Any]:
        """The bytes of a tensor, rows in GGUF's order."""
        made = []
        for source in sources:
            weight, order = self.weights[source], self.order_of(source)
            if len(weight.shape) != 2:
                vector = weight.stored.array().astype(np.float32)
                less = self.model.gains_less_one and source.endswith("norm.weight")
                return np.ascontiguousarray(order(vector + np.float32(1) if less else vector))
            largest_magnitude(weight)  # which refuses what is not finite
            made.append(order(np.concatenate([_rows(rows, kind) for rows in self.chunks(source)])))
        return made[0] if len(made) == 1 else np.concatenate(made)

    def _type(self, name: str, shape: tuple[int, ...], tied: bool) -> str:
        """The type of a tensor: vectors stay float32, the head has 8 bits, rows that no block divides fall back."""
        if len(shape) != 2 or name.endswith(_KEPT):
            return "F32"
        wanted = self.type
        if wanted in GGUF_TYPES and (name == "output.weight" or (tied and name == "token_embd.weight")):
            wanted = "Q8_0"
        while wanted in GGUF_TYPES and shape[1] % GGUF_TYPES[wanted].values:
            smaller = _SMALLER_BLOCKS.get(wanted, "F16")
            note = f"rows of {shape[1]} are {smaller}: no multiple of {wanted}'s {GGUF_TYPES[wanted].values}"
            self.notes += [] if note in self.notes else [note]
            wanted = smaller
        return wanted


def _stacks(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Name -> the tensors that are stacked under it: experts of one block, else one itself.

    Raises:
        ModelError: If an expert is missing.
    """
    found: dict[str, dict[int, str]] = {}
    for name in names:
        parts = _EXPERT.fullmatch(name)
        if parts is None:
            found[name] = {0: name}
        else:
            found.setdefault(f"{parts[1]}.{parts[3]}", {})[int(parts[2])] = name
    for name, each in found.items():
        if sorted(each) != list(range(len(each))):
            raise ModelError(f"{shown(name)}: expected experts numbered from 0, got {sorted(each)}")
    return {name: tuple(each[index] for index in sorted(each)) for name, each in found.items()}


def _names(architecture: str, blocks: int) -> Callable[[str], str | None]:
    """From Hugging Face's names to GGUF's."""
    try:
        import gguf
    except ImportError as error:
        raise DependencyError("checkpoint: expected the package gguf, got none; pip install gguf") from error
    (kind,) = (each for each, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(kind, blocks)
    return lambda name: names.get_name(name, try_suffixes=(".weight", ".bias"))


def _rows(rows: NDArray[np.float32], kind: str) -> NDArray[Any]:
    if kind in GGUF_TYPES:
        return quantize_gguf(rows, kind)
    return rows if kind == "F32" else cast(rows, _PLAIN[kind], saturate=True)


def write_gguf(
    plan: GgufPlan,
    output: Path,
    *,
    progress: Callable[[str, int, int | None], None] | None,
    check: Callable[[Path], None],
) -> None:
    """Writes the file, whole or not at all.

    Args:
        plan: What is written.
        output: Its path.
        progress: Called with a stage, the megabytes that are done, and of how many.
        check: Called with the path of the file before it takes its name.

    Raises:
        OutputError: If it cannot be written.
        ModelError: If config.json or the tokenizer lack what GGUF wants.
    """
    import gguf

    half = output.with_name(f".{output.name}.partial")
    writer = gguf.GGUFWriter(None, plan.model.name)
    add_metadata(writer, plan.config, _FILE_TYPES[plan.type], plan.folder.path.resolve().name)
    add_tokenizer(writer, plan.folder.path, number(plan.config, "vocab_size"))
    for tensor in plan.tensors:
        kind = gguf.GGMLQuantizationType[tensor.type]
        writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), tensor.nbytes, kind)
    total, done = plan.nbytes, 0
    try:
        writer.write_header_to_file(half)
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor in plan.tensors:
            writer.write_tensor_data(np.ascontiguousarray(tensor.make()))
            done += tensor.nbytes
            if progress is not None:
                progress("weights", done // 1_000_000, total // 1_000_000)
        writer.close()
        check(half)
        half.replace(output)
    except OSError as error:
        raise OutputError(f"output: expected to write {str(output)!r}, got {error.strerror}") from error
    finally:
        writer.close()
        half.unlink(missing_ok=True)
