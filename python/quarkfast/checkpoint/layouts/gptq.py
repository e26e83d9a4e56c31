"""``quant_method: gptq``: integers of 2, 3, 4 or 8 bits in groups, packed along the inputs.

Source:
    AutoGPTQ's and GPTQModel's layout of format ``gptq``, in which the stored zero point is one less than the one meant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.checkpoint.layouts.layout import Shape, signed_codes, unsigned_codes
from quarkfast.checkpoint.layouts.words import pack_words, unpack_words, words_of
from quarkfast.checkpoint.safetensors_files import TensorShape
from quarkfast.checkpoint.schemes import WeightScheme
from quarkfast.checkpoint.weights import QuantizedWeight, block_of, scale_shape

__all__ = ["Gptq"]


class Gptq:
    """``qweight``, ``qzeros``, ``scales`` and ``g_idx``."""

    name = "gptq"
    as_quark = False

    def accepts(self, scheme: WeightScheme) -> bool:
        """Integers with float scales of groups or channels, and float activations."""
        return scheme.element.is_integer and scheme.scale == "float" and not scheme.activations

    def scale_kind(self, kind: str) -> str:
        """float16, which all readers take."""
        return "F16"

    def shapes(self, module: str, shape: Shape, scheme: WeightScheme, kind: str) -> dict[str, TensorShape]:
        """Name -> type and shape of what becomes of a weight."""
        rows, columns = shape
        bits, groups = scheme.element.bits, scale_shape(scheme, shape)[1]
        return {
            f"{module}.qweight": TensorShape("I32", (words_of(columns, bits), rows)),
            f"{module}.qzeros": TensorShape("I32", (groups, words_of(rows, bits))),
            f"{module}.scales": TensorShape("F16", (groups, rows)),
            f"{module}.g_idx": TensorShape("I32", (columns,)),
        }

    def pack(self, module: str, weight: QuantizedWeight) -> dict[str, NDArray[Any]]:
        """Name -> array."""
        element, scale = weight.scheme.element, weight.scale
        assert scale is not None, "accepts() refuses schemes without scales"
        if weight.zero_point is None:
            zeros = np.full(scale.shape[::-1], -int(element.low), np.uint8)
        else:
            zeros = np.ascontiguousarray(weight.zero_point.T)
        stored = (zeros - np.uint8(1)) & np.uint8((1 << element.bits) - 1)
        columns, width = weight.codes.shape[1], block_of(weight.scheme, weight.codes.shape)[1]
        return {
            f"{module}.qweight": pack_words(unsigned_codes(weight.codes, element), element.bits).T,
            f"{module}.qzeros": pack_words(stored, element.bits),
            f"{module}.scales": scale.T,
            f"{module}.g_idx": (np.arange(columns) // width).astype(np.int32),
        }

    def unpack(
        self, module: str, tensors: Mapping[str, NDArray[Any]], shape: Shape, scheme: WeightScheme
    ) -> QuantizedWeight:
        """Reads a weight back."""
        rows, columns = shape
        element = scheme.element
        codes = unpack_words(np.ascontiguousarray(tensors[f"{module}.qweight"].T), element.bits, columns)
        zeros = unpack_words(tensors[f"{module}.qzeros"], element.bits, rows) + np.uint8(1)
        zeros &= np.uint8((1 << element.bits) - 1)
        scale = np.ascontiguousarray(tensors[f"{module}.scales"].T)
        zero = None if scheme.symmetric else np.ascontiguousarray(zeros.T)
        return QuantizedWeight(scheme, signed_codes(codes, element), scale, zero)

    def config(self, scheme: WeightScheme, left: Sequence[str]) -> dict[str, Any]:
        """The ``quantization_config``."""
        return {
            "quant_method": "gptq",
            "bits": scheme.element.bits,
            "group_size": scheme.group_size if scheme.granularity == "group" else -1,
            "sym": scheme.symmetric,
            "desc_act": False,
            "checkpoint_format": "gptq",
            "lm_head": False,
            # What GPTQModel and vLLM take as patterns of layers that stay float.
            "dynamic": {f"-:^{name.replace('.', chr(92) + '.')}$": {} for name in left},
        }
