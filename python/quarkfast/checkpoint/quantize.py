"""A checkpoint in, a smaller one out."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from quarkfast.atomic_files import check_output
from quarkfast.checkpoint.folder import (
    CONFIG,
    INDEX,
    ONE_FILE,
    CheckpointFolder,
    OutputFolder,
    check_free,
    check_output_folder,
    output_folder,
    read_folder,
)
from quarkfast.checkpoint.gguf_file import GgufPlan, write_gguf
from quarkfast.checkpoint.plan import CheckpointPlan, GroupSize, PlannedPart
from quarkfast.checkpoint.safetensors_files import write_shard
from quarkfast.checkpoint.schemes import PRESETS
from quarkfast.checkpoint.verification import CheckpointVerification, verify_gguf, verify_layers
from quarkfast.errors import ConfigError, OutputError
from quarkfast.wording import counted

__all__ = ["QuantizedCheckpoint", "quantize_checkpoint"]

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class QuantizedCheckpoint:
    """What became of a checkpoint.

    Attributes:
        output: The folder, or the file of GGUF.
        format: The layout.
        preset: The scheme's name.
        layers: How many layers were quantized.
        source_bytes: Bytes of the weights that were read.
        output_bytes: Bytes of the weights that were written, or would be.
        notes: What should be known, a sentence each.
        verification: What was read back, or None for a dry run.
        seconds: How long it took.
    """

    output: Path
    format: str
    preset: str
    layers: int
    source_bytes: int
    output_bytes: int
    notes: tuple[str, ...] = ()
    verification: CheckpointVerification | None = None
    seconds: float = field(default=0.0, compare=False)

    def rows(self) -> list[tuple[str, str]]:
        """Names and what is to be said about them."""
        share = self.output_bytes / max(self.source_bytes, 1)
        found = [
            ("format", f"{self.format}, {self.preset}"),
            ("layers", str(self.layers)),
            ("size", f"{self.source_bytes / 1e6:.1f} MB -> {self.output_bytes / 1e6:.1f} MB ({share:.0%})"),
        ]
        if self.verification is not None:
            found += self.verification.rows()
        return [*found, *(("note", note) for note in self.notes)]

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        found: dict[str, Any] = {"output": str(self.output), "format": self.format, "preset": self.preset}
        found |= {"layers": self.layers, "source_bytes": self.source_bytes, "output_bytes": self.output_bytes}
        found |= {"notes": list(self.notes), "seconds": self.seconds}
        return found | {"verification": None if self.verification is None else self.verification.to_dict()}


def quantize_checkpoint(
    source: str | Path,
    output: str | Path,
    preset: str,
    format: str = "compressed-tensors",
    *,
    group_size: GroupSize = None,
    method: str = "minmax",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    force: bool = False,
    resume: bool = False,
    dry_run: bool = False,
    verify: bool = False,
    progress: Progress | None = None,
) -> QuantizedCheckpoint:
    """Quantizes the weights of a language model, from a folder of safetensors to one that a runtime loads.

    Weights are mapped and written one at a time: memory holds one layer. No sample is needed, and no PyTorch.

    Args:
        source: A folder as Hugging Face publishes it: config.json, safetensors in one file or in shards with an index;
            float32, float16, bfloat16 or FP8 with scales.
        output: The folder to write, or the file of GGUF, which appears whole or not at all.
        preset: To what, such as ``"int4_wo_128"``, ``"fp8"`` or ``"mxfp4"``; ``quarkfast.checkpoint.PRESETS`` has all,
            and ``GGUF_PRESETS`` those of GGUF.
        format: ``"compressed-tensors"``, ``"quark"``, ``"fp8"``, ``"gptq"``, ``"awq"``, ``"safetensors"``, ``"gguf"``.
        group_size: Weights of a group, ``"auto"`` for the largest that divides the inputs of all layers, or None for
            the preset's.
        method: ``"minmax"``; ``"percentile"``; or ``"mse"``, the scale and zero point of the least squared error.
        include: Names or globs of modules to quantize besides those of the architecture.
        exclude: Names or globs of modules to leave.
        force: Replace an older checkpoint at `output`.
        resume: Keep finished shards where the run is cut short, and go on with those of such a run.
        dry_run: Write nothing; tell the sizes.
        verify: Read every layer back instead of one of each kind.
        progress: Called with a stage, the megabytes that are done, and of how many.

    Raises:
        ConfigError: If a preset, format or pattern does not exist, or one does not go with another.
        UnsupportedError: If the format has nothing like the model.
        ModelError: If the checkpoint is broken, holds NaN or infinity, or what was written reads back differently.
        OutputError: If the output cannot be written, or there is no room.
        DependencyError: If the package safetensors is missing.
    """
    begin = time.perf_counter()
    folder = read_folder(Path(source))
    if format.lower() == "gguf":
        given = {"group_size": group_size, "include": include, "exclude": exclude, "resume": resume}
        given["method"] = method if method != "minmax" else None
        for name, value in given.items():
            if value:
                raise ConfigError(f"{name}: expected a format of safetensors, got gguf, which has it not")
        return _gguf(folder, Path(output), preset, force, dry_run, verify, progress)
    options: dict[str, Any] = {"group_size": group_size, "method": method}
    options |= {"include": list(include), "exclude": list(exclude)}
    plan = CheckpointPlan(folder, preset, format, **options)
    sizes, output = plan.file_sizes(), Path(output)
    check_output_folder(output, folder.path, force=force, needed=sum(sizes.values()))
    found: dict[str, Any] = {
        "output": output,
        "format": plan.layout.name,
        "preset": plan.scheme.name,
        "layers": len(plan.selection.quantized),
        "source_bytes": sum(tensor.nbytes for tensor in folder.tensors.values()),
        "output_bytes": sum(sizes.values()),
        "notes": tuple(_notes(plan)),
    }
    if dry_run:
        return QuantizedCheckpoint(**found)
    mark = {"sources": _stamps(folder), "preset": preset, "format": format, **options}
    with output_folder(output, resume=resume, fingerprint=mark) as target:
        _write(plan, target, sizes, progress)
        verification = verify_layers(plan, target.path, every=verify, progress=progress)
    return QuantizedCheckpoint(**found, verification=verification, seconds=time.perf_counter() - begin)


def _gguf(
    folder: CheckpointFolder,
    output: Path,
    preset: str,
    force: bool,
    dry_run: bool,
    verify: bool,
    progress: Progress | None,
) -> QuantizedCheckpoint:
    begin = time.perf_counter()
    plan = GgufPlan(folder, preset)
    check_output(output)
    if output.exists() and not force:
        raise OutputError(f"output: expected a new file, got {str(output)!r}, which exists; --force replaces it")
    check_free(output.absolute().parent, plan.nbytes)
    found: dict[str, Any] = {
        "output": output,
        "format": "gguf",
        "preset": plan.type,
        "layers": sum(tensor.type not in ("F32", "F16", "BF16") for tensor in plan.tensors),
        "source_bytes": sum(tensor.nbytes for tensor in folder.tensors.values()),
        "output_bytes": plan.nbytes,
        "notes": tuple(plan.notes),
    }
    if dry_run:
        return QuantizedCheckpoint(**found)
    verified: list[CheckpointVerification] = []

    def check(half: Path) -> None:
        verified.append(verify_gguf(plan, half, every=verify, progress=progress))

    write_gguf(plan, output, progress=progress, check=check)
    return QuantizedCheckpoint(**found, verification=verified[0], seconds=time.perf_counter() - begin)


def _write(plan: CheckpointPlan, target: OutputFolder, sizes: Mapping[str, int], progress: Progress | None) -> None:
    total, done = sum(part.source_bytes for parts in plan.shards.values() for part in parts), 0

    def arrays(parts: Sequence[PlannedPart]) -> Iterator[tuple[str, NDArray[Any]]]:
        nonlocal done
        for part in parts:
            yield from part.make().items()
            done += part.source_bytes
            if progress is not None:
                progress("weights", done // 1_000_000, total // 1_000_000)

    for file, parts in plan.shards.items():
        if target.has(file, sizes[file]):
            done += sum(part.source_bytes for part in parts)
            continue
        shapes = {name: shape for part in parts for name, shape in part.shapes.items()}

        def write(stream: IO[bytes], parts: Sequence[PlannedPart] = parts, shapes: Mapping[str, Any] = shapes) -> None:
            write_shard(stream, shapes, arrays(parts))

        target.write(file, write)
    if list(plan.shards) != [ONE_FILE]:
        names = {name: file for file, parts in plan.shards.items() for part in parts for name in part.shapes}
        size = sum(shape.nbytes for parts in plan.shards.values() for part in parts for shape in part.shapes.values())
        target.write_json(INDEX, {"metadata": {"total_size": size}, "weight_map": dict(sorted(names.items()))})
    for other in plan.folder.others:
        shutil.copyfile(other, target.path / other.name)
    target.write_json(CONFIG, plan.config())


def _stamps(folder: CheckpointFolder) -> dict[str, list[int]]:
    """What tells that the source is still the same: sizes and times of its shards."""
    found = {name: (folder.path / name).stat() for name in folder.shards}
    return {name: [each.st_size, each.st_mtime_ns] for name, each in found.items()}


def _notes(plan: CheckpointPlan) -> Iterator[str]:
    selection = plan.selection
    if selection.by_pattern:
        kind = plan.folder.config.get("model_type") or plan.folder.config.get("architectures")
        taken = counted(len(selection.quantized), "layer")
        yield f"architecture {kind!r} is unknown: {taken} by pattern, every matrix but heads, embeddings and routers"
    if selection.left:
        yield f"left float: {', '.join(selection.left[:4])}{', ...' if len(selection.left) > 4 else ''}"
    if plan.scheme.activations:
        yield "activations are quantized as they come (dynamic): static scales would need samples"
    if plan.scheme.group_size != PRESETS[plan.scheme.name].group_size:
        yield f"groups of {plan.scheme.group_size}"
