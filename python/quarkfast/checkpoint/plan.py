"""What will be written of a checkpoint: known before a weight is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from quarkfast.checkpoint.folder import CONFIG, CheckpointFolder
from quarkfast.checkpoint.layouts import Layout, layout_of
from quarkfast.checkpoint.rounding import Rounding, check_method, largest_magnitude, quantize_weight
from quarkfast.checkpoint.safetensors_files import KINDS, TensorShape, file_size, kind_of
from quarkfast.checkpoint.schemes import WeightScheme, fit_group, scheme_of
from quarkfast.checkpoint.selection import Architecture, Selection, architecture_of, select_layers
from quarkfast.checkpoint.weights import FloatWeight, QuantizedWeight, float_weights
from quarkfast.errors import UnsupportedError
from quarkfast.kernels import cast

__all__ = ["CheckpointPlan", "PlannedPart"]

GroupSize = int | Literal["auto"] | None


@dataclass(frozen=True)
class PlannedPart:
    """A tensor of the source, and what is written in its place.

    Attributes:
        shapes: Name -> type and shape of what is written.
        make: Computes it.
        source_bytes: Bytes that are read for it.
    """

    shapes: Mapping[str, TensorShape]
    make: Callable[[], Mapping[str, NDArray[Any]]]
    source_bytes: int


class CheckpointPlan:
    """A checkpoint, the layers that are quantized and the form in which they are written.

    Attributes:
        folder: The source.
        weights: Its float tensors.
        architecture: The row of its model.
        selection: Which layers.
        scheme: To what.
        layout: In which form.
        shards: File name -> its parts, in order.
    """

    def __init__(
        self,
        folder: CheckpointFolder,
        preset: str,
        format: str,
        *,
        group_size: GroupSize = None,
        method: str = "minmax",
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        scheme = scheme_of(preset)
        self.layout: Layout = layout_of(format, scheme)
        check_method(method, scheme)
        self.method = method
        self.weights: dict[str, FloatWeight] = float_weights(folder)
        self.architecture: Architecture = architecture_of(folder.config, str(folder.path / CONFIG))
        self.selection: Selection = select_layers(self.weights, self.architecture, include, exclude)
        if self.architecture.transposed and scheme.scale != "none":
            raise UnsupportedError(
                f"{self.architecture.name}: expected weights [outputs, inputs], got Conv1D's [inputs, outputs], which "
                f"no runtime reads quantized as {self.layout.name}; --format gguf or -p bfloat16 take them"
            )
        columns = sorted({self.weights[f"{each}.weight"].shape[1] for each in self.selection.quantized})
        self.scheme: WeightScheme = fit_group(scheme, columns, group_size)
        self._largest: dict[str, np.float32] = {}
        quantized = set(self.selection.quantized)
        self.shards: dict[str, list[PlannedPart]] = {
            file: [self._part(tensor.name, quantized) for tensor in tensors if not self._is_scale(tensor.name)]
            for file, tensors in folder.shards.items()
        }

    def quantize(self, module: str) -> QuantizedWeight:
        """Quantizes one layer."""
        weight = self.weights[f"{module}.weight"]
        rounding = Rounding(
            KINDS[self.layout.scale_kind(weight.stored.kind if weight.scale is None else "BF16")],
            self.method,
            self.layout.as_quark,
        )
        return quantize_weight(weight, self.scheme, rounding, self._shared_magnitude(module))

    def config(self) -> dict[str, Any]:
        """The config.json of the result."""
        found = {name: value for name, value in self.folder.config.items() if name != "quantization_config"}
        if self.scheme.scale == "none":
            name = "dtype" if "dtype" in found else "torch_dtype"
            return found | {name: self.scheme.weight}
        left = [module for module in self.selection.left if not _is_embedding(module)]
        if "lm_head" not in left:  # which is the embedding where they are tied
            left.append("lm_head")
        return found | {"quantization_config": self.layout.config(self.scheme, left)}

    def file_sizes(self) -> dict[str, int]:
        """File name -> its bytes."""
        return {
            file: file_size({name: shape for part in parts for name, shape in part.shapes.items()})
            for file, parts in self.shards.items()
        }

    def _part(self, name: str, quantized: set[str]) -> PlannedPart:
        stored = self.folder.tensors[name]
        module = name.removesuffix(".weight")
        if name not in self.weights:
            return PlannedPart({name: stored}, lambda: {name: stored.array()}, stored.nbytes)
        weight = self.weights[name]
        if self.scheme.scale == "none":
            kind = kind_of(self.scheme.element.dtype)
            whole = TensorShape(kind, stored.shape)
            return PlannedPart({name: whole}, lambda: {name: _as(weight, kind)}, stored.nbytes)
        if module not in quantized or not name.endswith(".weight"):
            shape = TensorShape(weight.kind, stored.shape)
            return PlannedPart({name: shape}, lambda: {name: weight.kept()}, stored.nbytes)
        shapes = self.layout.shapes(module, weight.shape, self.scheme, weight.kind)
        return PlannedPart(shapes, lambda: self.layout.pack(module, self.quantize(module)), stored.nbytes)

    def _is_scale(self, name: str) -> bool:
        """Whether a tensor of the source is the scale of FP8 weights, which are dequantized."""
        weight = self.weights.get(f"{name.rpartition('.')[0]}.weight")
        return name not in self.weights and weight is not None and weight.scale is not None

    def _shared_magnitude(self, module: str) -> np.float32 | None:
        if not self.scheme.shares_scale:
            return None
        if module not in self._largest:
            group = self.selection.fused.get(module, (module,))
            largest = np.float32(max(largest_magnitude(self.weights[f"{each}.weight"]) for each in group))
            self._largest.update(dict.fromkeys(group, largest))
        return self._largest[module]


def _is_embedding(module: str) -> bool:
    last = module.rpartition(".")[2]
    return "embed" in last or last in ("wte", "wpe")


def _as(weight: FloatWeight, kind: str) -> NDArray[Any]:
    """A tensor of any rank in a 16-bit type."""
    if weight.kind == kind:
        return weight.kept()
    if weight.scale is not None:
        return weight.kept() if kind == "BF16" else cast(weight.rows(0, weight.shape[0]), KINDS[kind], saturate=True)
    array = weight.stored.array()
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    return cast(array, KINDS[kind], saturate=True)
