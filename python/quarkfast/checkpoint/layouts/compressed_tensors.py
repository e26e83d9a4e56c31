"""compressed-tensors, which transformers, vLLM and SGLang read: its layouts for integers, FP8, microscaling and NVFP4.

Source:
    compressed-tensors 0.17 and 0.20: ``compressors/`` for the tensors, ``QuantizationScheme`` for the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.checkpoint.layouts.layout import Shape, signed_codes, unsigned_codes
from quarkfast.checkpoint.layouts.words import (
    exponents,
    from_exponents,
    pack_floats,
    pack_words,
    packed_columns,
    unpack_floats,
    unpack_words,
    words_of,
)
from quarkfast.checkpoint.safetensors_files import TensorShape, kind_of
from quarkfast.checkpoint.schemes import ELEMENTS, WeightScheme
from quarkfast.checkpoint.weights import QuantizedWeight, scale_shape

__all__ = ["CompressedTensors"]

_MICROSCALED = {"fp4": "mxfp4-pack-quantized", "fp6_e2m3": "mxfp6-pack-quantized", "fp8_e4m3": "mxfp8-quantized"}


class CompressedTensors:
    """``quant_method: compressed-tensors``."""

    name = "compressed-tensors"
    as_quark = False

    def accepts(self, scheme: WeightScheme) -> bool:
        """All but MXINT8, the E3M2 and E5M2 floats, activations it cannot name, and plain floats."""
        if scheme.scale == "none":
            return False
        if scheme.scale == "e8m0":
            return scheme.weight in _MICROSCALED and scheme.activations in ("", "fp4", "fp8_e4m3")
        return scheme.weight != "fp8_e5m2"

    def scale_kind(self, kind: str) -> str:
        """That of the weights; float32 for those of other types."""
        return kind if kind in ("F32", "F16", "BF16") else "F32"

    def shapes(self, module: str, shape: Shape, scheme: WeightScheme, kind: str) -> dict[str, TensorShape]:
        """Name -> type and shape of what becomes of a weight."""
        rows, columns = shape
        blocks = scale_shape(scheme, shape)
        form, element = _form(scheme), scheme.element
        scale = TensorShape(self.scale_kind(kind), blocks if scheme.granularity != "tensor" else (1,))
        if form == "pack-quantized":
            found = {
                f"{module}.weight_packed": TensorShape("I32", (rows, words_of(columns, element.bits))),
                f"{module}.weight_scale": scale,
                f"{module}.weight_shape": TensorShape("I64", (2,)),
            }
            if not scheme.symmetric:
                zeros = (words_of(rows, element.bits), blocks[1])
                found[f"{module}.weight_zero_point"] = TensorShape("I32", zeros)
            return found
        if form in ("int-quantized", "float-quantized"):
            return {f"{module}.weight": TensorShape(kind_of(element.dtype), shape), f"{module}.weight_scale": scale}
        packed = (
            {f"{module}.weight": TensorShape("F8_E4M3", shape)}
            if element.bits == 8
            else {f"{module}.weight_packed": TensorShape("U8", (rows, packed_columns(columns, element)))}
        )
        if scheme.scale == "e4m3":
            scales = {f"{module}.weight_scale": TensorShape("F8_E4M3", blocks)}
            return packed | scales | {f"{module}.weight_global_scale": TensorShape("F32", (1,))}
        return packed | {f"{module}.weight_scale": TensorShape("U8", blocks)}

    def pack(self, module: str, weight: QuantizedWeight) -> dict[str, NDArray[Any]]:
        """Name -> array."""
        scheme, codes, scale = weight.scheme, weight.codes, weight.scale
        form, element = _form(scheme), scheme.element
        assert scale is not None, "accepts() refuses schemes without scales"
        if form == "pack-quantized":
            found: dict[str, NDArray[Any]] = {
                f"{module}.weight_packed": pack_words(unsigned_codes(codes, element), element.bits),
                f"{module}.weight_scale": scale,
                f"{module}.weight_shape": np.array(codes.shape, np.int64),
            }
            if weight.zero_point is not None:
                zeros = np.ascontiguousarray(unsigned_codes(weight.zero_point, element).T)
                found[f"{module}.weight_zero_point"] = pack_words(zeros, element.bits).T
            return found
        if form in ("int-quantized", "float-quantized"):
            one = scale.reshape(1) if scheme.granularity == "tensor" else scale
            return {f"{module}.weight": codes, f"{module}.weight_scale": one}
        name, packed = ("weight", codes) if element.bits == 8 else ("weight_packed", pack_floats(codes))
        if scheme.scale == "e4m3":
            divisor = np.array([weight.global_scale], np.float32)
            return {
                f"{module}.{name}": packed,
                f"{module}.weight_scale": scale,
                f"{module}.weight_global_scale": divisor,
            }
        return {f"{module}.{name}": packed, f"{module}.weight_scale": exponents(scale)}

    def unpack(
        self, module: str, tensors: Mapping[str, NDArray[Any]], shape: Shape, scheme: WeightScheme
    ) -> QuantizedWeight:
        """Reads a weight back."""
        rows, columns = shape
        form, element = _form(scheme), scheme.element
        scale = tensors[f"{module}.weight_scale"]
        if form == "pack-quantized":
            codes = unpack_words(tensors[f"{module}.weight_packed"], element.bits, columns)
            zero = None
            if not scheme.symmetric:
                words = np.ascontiguousarray(tensors[f"{module}.weight_zero_point"].T)
                zero = np.ascontiguousarray(unpack_words(words, element.bits, rows).T)
            return QuantizedWeight(scheme, signed_codes(codes, element), scale, zero)
        if form in ("int-quantized", "float-quantized"):
            return QuantizedWeight(scheme, tensors[f"{module}.weight"], scale.reshape(scale_shape(scheme, shape)))
        if element.bits == 8:
            codes = tensors[f"{module}.weight"]
        else:
            codes = unpack_floats(tensors[f"{module}.weight_packed"], element, columns)
        if scheme.scale == "e4m3":
            divisor = np.float32(tensors[f"{module}.weight_global_scale"][0])
            return QuantizedWeight(scheme, codes, scale, None, divisor)
        return QuantizedWeight(scheme, codes, from_exponents(scale))

    def config(self, scheme: WeightScheme, left: Sequence[str]) -> dict[str, Any]:
        """The ``quantization_config``."""
        group = {"targets": ["Linear"], "weights": _weight_arguments(scheme), "output_activations": None}
        group["input_activations"] = _activation_arguments(scheme)
        return {
            "quant_method": "compressed-tensors",
            "format": _form(scheme),
            "quantization_status": "compressed",
            "ignore": list(left),
            "config_groups": {"group_0": group},
        }


def _form(scheme: WeightScheme) -> str:
    if scheme.scale == "e8m0":
        return _MICROSCALED[scheme.weight]
    if scheme.scale == "e4m3":
        return "nvfp4-pack-quantized"
    if not scheme.element.is_integer:
        return "float-quantized"
    return "int-quantized" if scheme.element.bits == 8 and scheme.activations else "pack-quantized"


def _weight_arguments(scheme: WeightScheme) -> dict[str, Any]:
    element = scheme.element
    strategy = "tensor_group" if scheme.scale == "e4m3" else scheme.granularity
    found: dict[str, Any] = {
        "num_bits": element.bits,
        "type": "int" if element.is_integer else "float",
        "symmetric": scheme.symmetric,
        "strategy": strategy,
        "dynamic": False,
    }
    if scheme.granularity == "group":
        found["group_size"] = scheme.group_size
    if scheme.granularity == "block":
        found["block_structure"] = [scheme.group_size, scheme.group_size]
    if scheme.scale == "e8m0":
        found |= {"scale_dtype": "torch.uint8", "zp_dtype": "torch.uint8"}
    if scheme.scale == "e4m3":
        found |= {"scale_dtype": "torch.float8_e4m3fn", "zp_dtype": "torch.float8_e4m3fn"}
    return found


def _activation_arguments(scheme: WeightScheme) -> dict[str, Any] | None:
    if not scheme.activations:
        return None
    element = ELEMENTS[scheme.activations]
    found: dict[str, Any] = {
        "num_bits": element.bits,
        "type": "int" if element.is_integer else "float",
        "symmetric": True,
        "strategy": scheme.activation_granularity,
        "dynamic": True,
    }
    if scheme.activation_granularity == "group":
        found["group_size"] = scheme.activation_group
    if scheme.scale == "e8m0" and scheme.activation_granularity == "group":
        found |= {"scale_dtype": "torch.uint8", "zp_dtype": "torch.uint8"}
    return found
