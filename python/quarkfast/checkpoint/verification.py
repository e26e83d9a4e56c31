"""Reading a written checkpoint back: are the values those that were meant, and how far are they from the float ones?"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.checkpoint.safetensors_files import StoredTensor, read_shard
from quarkfast.errors import ModelError, shown
from quarkfast.kernels import cast, dequantize_gguf

if TYPE_CHECKING:
    from quarkfast.checkpoint.gguf_file import GgufPlan, GgufTensor
    from quarkfast.checkpoint.plan import CheckpointPlan

__all__ = ["CheckpointVerification", "LayerNoise", "verify_gguf", "verify_layers"]

_WORST = 10


@dataclass(frozen=True)
class LayerNoise:
    """One layer, read back.

    Attributes:
        name: The module.
        sqnr: Of its weights beside the float ones, in dB; infinite where they are the same.
    """

    name: str
    sqnr: float


@dataclass(frozen=True)
class CheckpointVerification:
    """Layers that were read back from the disk and are, value by value, what was meant.

    Attributes:
        layers: Each of them.
        of: How many layers the checkpoint has quantized.
    """

    layers: tuple[LayerNoise, ...]
    of: int

    @property
    def worst(self) -> tuple[LayerNoise, ...]:
        """The ten layers of the least SQNR, worst first."""
        return tuple(sorted(self.layers, key=lambda each: each.sqnr)[:_WORST])

    def rows(self) -> list[tuple[str, str]]:
        """Names and what is to be said about them."""
        middle = float(np.median([each.sqnr for each in self.layers])) if self.layers else math.inf
        found = [("read back", f"{len(self.layers)} of {self.of} layers, 0 values differ")]
        found.append(("weights' SQNR", f"{middle:.1f} dB in the median, {self.worst[0].sqnr:.1f} at worst"))
        return found

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        layers = [{"name": each.name, "sqnr": each.sqnr} for each in self.layers]
        return {"differing": 0, "read_back": len(self.layers), "of": self.of, "layers": layers}


def verify_layers(
    plan: CheckpointPlan,
    written: Path,
    *,
    every: bool,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> CheckpointVerification:
    """Reads layers back and compares them with what was meant and with the source.

    Args:
        plan: What was written.
        written: The folder.
        every: All layers; otherwise the first of each kind, by the last part of its name.
        progress: Called with the stage, the layers that are done, and of how many.

    Raises:
        ModelError: If a value differs.
    """
    config = json.loads((written / "config.json").read_text(encoding="utf-8"))
    if config != json.loads(json.dumps(plan.config())):
        raise ModelError(f"{written}: expected the configuration that was written, got another")
    tensors: dict[str, StoredTensor] = {}
    for file in plan.shards:
        tensors |= {tensor.name: tensor for tensor in read_shard(written / file)}
    quantized = plan.selection.quantized
    first = {module.rpartition(".")[2]: module for module in reversed(quantized)}
    chosen = quantized if every else tuple(module for module in quantized if module in first.values())
    found = []
    for done, module in enumerate(chosen, 1):
        found.append(_layer(plan, module, tensors))
        if progress is not None:
            progress("read back", done, len(chosen))
    return CheckpointVerification(tuple(found), len(quantized))


def _layer(plan: CheckpointPlan, module: str, tensors: dict[str, StoredTensor]) -> LayerNoise:
    weight = plan.weights[f"{module}.weight"]
    names = plan.layout.shapes(module, weight.shape, plan.scheme, weight.kind)
    arrays: dict[str, NDArray[Any]] = {name: tensors[name].array() for name in names}
    back = plan.layout.unpack(module, arrays, weight.shape, plan.scheme)
    meant = plan.quantize(module)
    signal = noise = 0.0
    for begin, rows in weight.chunks(128):
        values, expected = back.rows(begin, begin + len(rows)), meant.rows(begin, begin + len(rows))
        if differing := int((values.view(np.uint32) != expected.view(np.uint32)).sum()):
            raise ModelError(f"{shown(module)}: expected the values that were meant, got {differing} others")
        signal += float(np.square(rows, dtype=np.float64).sum())
        noise += float(np.square(rows - values, dtype=np.float64).sum())
    return LayerNoise(module, 10 * math.log10(signal / noise) if noise and signal else math.inf)


def verify_gguf(
    plan: GgufPlan,
    written: Path,
    *,
    every: bool,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> CheckpointVerification:
    """Reads matrices of a GGUF file back, by the package gguf, and compares them as :func:`verify_layers` does.

    Raises:
        ModelError: If a byte differs.
    """
    import gguf

    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(written).tensors}
    matrices = [tensor for tensor in plan.tensors if len(tensor.shape) > 1]
    first = {tensor.name.split(".", 2)[-1]: tensor.name for tensor in reversed(matrices)}
    chosen = matrices if every else [tensor for tensor in matrices if tensor.name in first.values()]
    found = []
    for done, tensor in enumerate(chosen, 1):
        meant = np.ascontiguousarray(tensor.make())
        data = np.ascontiguousarray(stored[tensor.name].data)
        if meant.nbytes != data.nbytes or (meant.view(np.uint8).reshape(-1) != data.view(np.uint8).reshape(-1)).any():
            raise ModelError(f"{shown(tensor.name)}: expected the bytes that were meant, got others")
        found.append(LayerNoise(tensor.name, _gguf_sqnr(plan, tensor, meant)))
        if progress is not None:
            progress("read back", done, len(chosen))
    return CheckpointVerification(tuple(found), len(matrices))


def _gguf_sqnr(plan: GgufPlan, tensor: GgufTensor, meant: NDArray[Any]) -> float:
    signal = noise = 0.0
    for index, source in enumerate(tensor.sources):
        count = len(meant) // len(tensor.sources)
        part = meant[index * count : (index + 1) * count]
        stored = np.empty_like(part)
        stored[plan.order_of(source)(np.arange(count))] = part  # rows as the source has them
        begin = 0
        for rows in plan.chunks(source):
            some = stored[begin : begin + len(rows)]
            begin += len(rows)
            values = dequantize_gguf(some, tensor.type) if some.dtype == np.uint8 else some
            values = cast(values, np.float32) if values.dtype != np.float32 else values
            signal += float(np.square(rows, dtype=np.float64).sum())
            noise += float(np.square(rows - values, dtype=np.float64).sum())
    return 10 * math.log10(signal / noise) if noise and signal else math.inf
