"""Plain safetensors: weights as float16 or bfloat16, which everything reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from quarkfast.checkpoint.layouts.layout import Shape
from quarkfast.checkpoint.safetensors_files import TensorShape, kind_of
from quarkfast.checkpoint.schemes import WeightScheme
from quarkfast.checkpoint.weights import QuantizedWeight

__all__ = ["Plain"]


class Plain:
    """Float weights under their own names."""

    name = "safetensors"
    as_quark = False

    def accepts(self, scheme: WeightScheme) -> bool:
        """float16 and bfloat16."""
        return scheme.scale == "none"

    def scale_kind(self, kind: str) -> str:
        """Of none: there are no scales."""
        return "F32"

    def shapes(self, module: str, shape: Shape, scheme: WeightScheme, kind: str) -> dict[str, TensorShape]:
        """Name -> type and shape of what becomes of a weight."""
        return {f"{module}.weight": TensorShape(kind_of(scheme.element.dtype), shape)}

    def pack(self, module: str, weight: QuantizedWeight) -> dict[str, NDArray[Any]]:
        """Name -> array."""
        return {f"{module}.weight": weight.codes}

    def unpack(
        self, module: str, tensors: Mapping[str, NDArray[Any]], shape: Shape, scheme: WeightScheme
    ) -> QuantizedWeight:
        """Reads a weight back."""
        return QuantizedWeight(scheme, tensors[f"{module}.weight"])

    def config(self, scheme: WeightScheme, left: Sequence[str]) -> dict[str, Any]:
        """None: the folder is a float checkpoint."""
        return {}
