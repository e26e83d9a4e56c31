"""AMD Quark's layout, which vLLM, SGLang and transformers read: integers, FP8 and microscaling.

Source:
    AMD Quark 0.13: ``export_safetensors`` in its mode ``quark``; vLLM 0.32: ``QuarkConfig`` and its schemes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.checkpoint.layouts.layout import Shape, signed_codes
from quarkfast.checkpoint.layouts.words import (
    EVEN_FIRST,
    exponents,
    from_exponents,
    pack_across,
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

__all__ = ["Quark"]

_VERSION = "0.13"
_QSCHEMES = {"tensor": "per_tensor", "channel": "per_channel", "group": "per_group", "block": "per_block"}
_OBSERVERS = {
    "tensor": "PerTensorMinMaxObserver",
    "channel": "PerChannelMinMaxObserver",
    "group": "PerGroupMinMaxObserver",
    "block": "PerBlock2DMinMaxObserver",
}


class Quark:
    """``quant_method: quark``."""

    name = "quark"
    as_quark = True

    def accepts(self, scheme: WeightScheme) -> bool:
        """4-bit integers in groups and channels, int8 per channel, FP8 E4M3, and microscaling with float elements."""
        if scheme.scale == "e8m0":
            return not scheme.element.is_integer
        if scheme.scale != "float":
            return False
        element = scheme.element
        if element.is_integer and element.bits == 4:
            return scheme.granularity in ("group", "channel")
        return bool(scheme.activations) and element.bits == 8 and element.mantissa in (0, 3)

    def scale_kind(self, kind: str) -> str:
        """That of the weights."""
        return kind if kind in ("F32", "F16", "BF16") else "F32"

    def shapes(self, module: str, shape: Shape, scheme: WeightScheme, kind: str) -> dict[str, TensorShape]:
        """Name -> type and shape of what becomes of a weight."""
        rows, columns = shape
        element, blocks = scheme.element, scale_shape(scheme, shape)
        scale_kind = self.scale_kind(kind)
        if element.bits == 4 and element.is_integer:
            words = words_of(rows, 4)
            if scheme.granularity == "channel":
                return {
                    f"{module}.weight": TensorShape("I32", (rows, words_of(columns, 4))),
                    f"{module}.weight_scale": TensorShape(scale_kind, (rows,)),
                    f"{module}.weight_zero_point": TensorShape("I32", (words,)),
                }
            return {
                f"{module}.weight": TensorShape("I32", (columns, words)),
                f"{module}.weight_scale": TensorShape(scale_kind, (blocks[1], rows)),
                f"{module}.weight_zero_point": TensorShape("I32", (blocks[1], words)),
            }
        if scheme.scale == "e8m0":
            wide = element.bits == 8
            weight = (
                TensorShape("F8_E4M3", shape) if wide else TensorShape("U8", (rows, packed_columns(columns, element)))
            )
            return {f"{module}.weight": weight, f"{module}.weight_scale": TensorShape("U8", blocks)}
        found = {
            f"{module}.weight": TensorShape(kind_of(element.dtype), shape),
            f"{module}.weight_scale": TensorShape(scale_kind, _stored_shape(scheme, blocks)),
        }
        if element.is_integer:
            found[f"{module}.weight_zero_point"] = TensorShape("I8", _stored_shape(scheme, blocks))
        return found

    def pack(self, module: str, weight: QuantizedWeight) -> dict[str, NDArray[Any]]:
        """Name -> array."""
        scheme, element, scale = weight.scheme, weight.scheme.element, weight.scale
        assert scale is not None, "accepts() refuses schemes without scales"
        if element.bits == 4 and element.is_integer:
            zero = np.zeros(scale.shape, np.uint8) if weight.zero_point is None else weight.zero_point
            whole = scheme.granularity == "channel"  # whose codes are packed along the inputs, those of groups across
            raw, zeros = weight.codes.view(np.uint8) & np.uint8(15), pack_across(zero.view(np.uint8), EVEN_FIRST)
            codes = pack_words(raw, 4, EVEN_FIRST) if whole else pack_across(raw, EVEN_FIRST)
            zeros, scales = (zeros[0], scale[:, 0]) if whole else (zeros, np.ascontiguousarray(scale.T))
            return {f"{module}.weight": codes, f"{module}.weight_scale": scales, f"{module}.weight_zero_point": zeros}
        if scheme.scale == "e8m0":
            packed = weight.codes if element.bits == 8 else pack_floats(weight.codes)
            return {f"{module}.weight": packed, f"{module}.weight_scale": exponents(scale)}
        shape = _stored_shape(scheme, scale.shape)
        found = {f"{module}.weight": weight.codes, f"{module}.weight_scale": scale.reshape(shape)}
        if element.is_integer:
            found[f"{module}.weight_zero_point"] = np.zeros(shape, np.int8)
        return found

    def unpack(
        self, module: str, tensors: Mapping[str, NDArray[Any]], shape: Shape, scheme: WeightScheme
    ) -> QuantizedWeight:
        """Reads a weight back."""
        element = scheme.element
        stored, scale = tensors[f"{module}.weight"], tensors[f"{module}.weight_scale"]
        if element.bits == 4 and element.is_integer:
            zeros = tensors[f"{module}.weight_zero_point"]
            if scheme.granularity == "channel":
                codes, zeros = unpack_words(stored, 4, shape[1], EVEN_FIRST), zeros[None]
                scale = scale[None]
            else:
                codes = np.ascontiguousarray(unpack_words(stored, 4, shape[0], EVEN_FIRST).T)
            zeros = np.ascontiguousarray(unpack_words(zeros, 4, shape[0], EVEN_FIRST).T)
            if element.signed:  # two's complement of 4 bits
                codes = signed_codes(codes ^ np.uint8(8), element)
            zero = None if scheme.symmetric else zeros
            return QuantizedWeight(scheme, codes, np.ascontiguousarray(scale.T), zero)
        if scheme.scale == "e8m0":
            codes = stored if element.bits == 8 else unpack_floats(stored, element, shape[1])
            return QuantizedWeight(scheme, codes, from_exponents(scale))
        return QuantizedWeight(scheme, stored, scale.reshape(scale_shape(scheme, shape)))

    def config(self, scheme: WeightScheme, left: Sequence[str]) -> dict[str, Any]:
        """The ``quantization_config``."""
        weight = _tensor_entry(scheme.weight, scheme.granularity, scheme.group_size, scheme, dynamic=False)
        inputs = None
        if scheme.activations:
            granularity = {"token": "channel"}.get(scheme.activation_granularity, scheme.activation_granularity)
            inputs = _tensor_entry(scheme.activations, granularity, scheme.activation_group, scheme, dynamic=True)
        layer = {"weight": weight, "input_tensors": inputs, "output_tensors": None, "bias": None, "target_device": None}
        export = {"kv_cache_group": [], "min_kv_scale": 0.0, "pack_method": "reorder"}
        return {
            "quant_method": "quark",
            "quant_mode": "eager_mode",
            "version": _VERSION,
            "exclude": list(left),
            "global_quant_config": layer,
            "layer_quant_config": {},
            "layer_type_quant_config": {},
            "kv_cache_quant_config": {},
            "kv_cache_post_rope": False,
            "softmax_quant_spec": None,
            "algo_config": None,
            "export": {**export, "weight_format": "real_quantized", "weight_merge_groups": None},
        }


def _stored_shape(scheme: WeightScheme, blocks: tuple[int, ...]) -> tuple[int, ...]:
    """Scales of a tensor are one number, those of channels a vector."""
    return {"tensor": (), "channel": (blocks[0],)}.get(scheme.granularity, blocks)


def _tensor_entry(name: str, granularity: str, size: int, scheme: WeightScheme, *, dynamic: bool) -> dict[str, Any]:
    microscaled = scheme.scale == "e8m0" and granularity == "group"
    observer = "PerBlockMXObserver" if microscaled else _OBSERVERS[granularity]
    axis = {"tensor": None, "channel": 1 if dynamic else 0}.get(granularity, -1)
    return {
        "dtype": name,
        "is_dynamic": dynamic,
        "qscheme": _QSCHEMES[granularity],
        "ch_axis": axis,
        "group_size": size if granularity == "group" else None,
        "block_size": [size, size] if granularity == "block" else None,
        "symmetric": None if microscaled else ELEMENTS[name].signed,
        "round_method": "half_even",
        "scale_type": "float",
        "scale_format": "e8m0" if microscaled else None,
        "scale_calculation_mode": "even" if microscaled else None,
        "zero_point_type": "int32",
        "mx_element_dtype": None,
        "observer_cls": observer,
        "is_scale_quant": False,
        "enable_buffer_reuse": False,
        "max_input_numel": 4194304,
    }
