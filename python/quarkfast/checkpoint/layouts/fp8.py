"""``quant_method: fp8``: what vLLM, SGLang and transformers read of FP8, as DeepSeek published it in blocks.

Source:
    transformers' ``FineGrainedFP8Config`` and vLLM's ``Fp8Config``: blocks have ``weight_scale_inv`` (which multiplies,
    in spite of its name), whole tensors ``weight_scale``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from quarkfast.checkpoint.layouts.layout import Shape
from quarkfast.checkpoint.safetensors_files import TensorShape
from quarkfast.checkpoint.schemes import WeightScheme
from quarkfast.checkpoint.weights import QuantizedWeight, scale_shape

__all__ = ["Fp8"]


class Fp8:
    """FP8 E4M3, of one scale for a tensor or for a block of 128 x 128."""

    name = "fp8"
    as_quark = False

    def accepts(self, scheme: WeightScheme) -> bool:
        """E4M3 per tensor and per block."""
        return scheme.weight == "fp8_e4m3" and scheme.granularity in ("tensor", "block")

    def scale_kind(self, kind: str) -> str:
        """float32, which both read."""
        return "F32"

    def shapes(self, module: str, shape: Shape, scheme: WeightScheme, kind: str) -> dict[str, TensorShape]:
        """Name -> type and shape of what becomes of a weight."""
        if scheme.granularity == "tensor":
            scale = {f"{module}.weight_scale": TensorShape("F32", ())}
        else:
            scale = {f"{module}.weight_scale_inv": TensorShape("F32", scale_shape(scheme, shape))}
        return {f"{module}.weight": TensorShape("F8_E4M3", shape), **scale}

    def pack(self, module: str, weight: QuantizedWeight) -> dict[str, NDArray[Any]]:
        """Name -> array."""
        assert weight.scale is not None, "accepts() refuses schemes without scales"
        if weight.scheme.granularity == "tensor":
            return {f"{module}.weight": weight.codes, f"{module}.weight_scale": weight.scale.reshape(())}
        return {f"{module}.weight": weight.codes, f"{module}.weight_scale_inv": weight.scale}

    def unpack(
        self, module: str, tensors: Mapping[str, NDArray[Any]], shape: Shape, scheme: WeightScheme
    ) -> QuantizedWeight:
        """Reads a weight back."""
        name = "weight_scale" if scheme.granularity == "tensor" else "weight_scale_inv"
        scale = tensors[f"{module}.{name}"].reshape(scale_shape(scheme, shape))
        return QuantizedWeight(scheme, tensors[f"{module}.weight"], scale)

    def config(self, scheme: WeightScheme, left: Sequence[str]) -> dict[str, Any]:
        """The ``quantization_config``; vLLM reads ``ignored_layers``, transformers ``modules_to_not_convert``."""
        found: dict[str, Any] = {"quant_method": "fp8", "activation_scheme": "dynamic"}
        found |= {"ignored_layers": list(left), "modules_to_not_convert": list(left)}
        if scheme.granularity == "block":
            found["weight_block_size"] = [scheme.group_size, scheme.group_size]
        return found
