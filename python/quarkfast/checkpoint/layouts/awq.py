"""``quant_method: awq``: unsigned 4-bit integers in groups, packed along the outputs, even ones first.

Source:
    AutoAWQ's version ``gemm``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.checkpoint.layouts.layout import Shape
from quarkfast.checkpoint.layouts.words import EVEN_FIRST, pack_across, unpack_words, words_of
from quarkfast.checkpoint.safetensors_files import TensorShape
from quarkfast.checkpoint.schemes import WeightScheme
from quarkfast.checkpoint.weights import QuantizedWeight, scale_shape

__all__ = ["Awq"]


class Awq:
    """``qweight``, ``qzeros`` and ``scales``."""

    name = "awq"
    as_quark = False

    def accepts(self, scheme: WeightScheme) -> bool:
        """uint4 in groups."""
        element = scheme.element
        return element.is_integer and element.bits == 4 and not element.signed and scheme.granularity == "group"

    def scale_kind(self, kind: str) -> str:
        """float16, which all readers take."""
        return "F16"

    def shapes(self, module: str, shape: Shape, scheme: WeightScheme, kind: str) -> dict[str, TensorShape]:
        """Name -> type and shape of what becomes of a weight."""
        rows, columns = shape
        groups = scale_shape(scheme, shape)[1]
        return {
            f"{module}.qweight": TensorShape("I32", (columns, words_of(rows, 4))),
            f"{module}.qzeros": TensorShape("I32", (groups, words_of(rows, 4))),
            f"{module}.scales": TensorShape("F16", (groups, rows)),
        }

    def pack(self, module: str, weight: QuantizedWeight) -> dict[str, NDArray[Any]]:
        """Name -> array."""
        assert weight.scale is not None, "accepts() refuses schemes without scales"
        assert weight.zero_point is not None, "accepts() refuses symmetric schemes"
        return {
            f"{module}.qweight": pack_across(weight.codes, EVEN_FIRST),
            f"{module}.qzeros": pack_across(weight.zero_point, EVEN_FIRST),
            f"{module}.scales": weight.scale.T,
        }

    def unpack(
        self, module: str, tensors: Mapping[str, NDArray[Any]], shape: Shape, scheme: WeightScheme
    ) -> QuantizedWeight:
        """Reads a weight back."""
        codes, zeros = (
            np.ascontiguousarray(unpack_words(tensors[f"{module}.{name}"], 4, shape[0], EVEN_FIRST).T)
            for name in ("qweight", "qzeros")
        )
        return QuantizedWeight(scheme, codes, np.ascontiguousarray(tensors[f"{module}.scales"].T), zeros)

    def config(self, scheme: WeightScheme, left: Sequence[str]) -> dict[str, Any]:
        """The ``quantization_config``."""
        return {
            "quant_method": "awq",
            "version": "gemm",
            "bits": 4,
            "group_size": scheme.group_size,
            "zero_point": True,
            "modules_to_not_convert": list(left),
        }
