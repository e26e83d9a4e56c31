"""Biases: as codes at the scale of the products, with headroom, or as floats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quarkfast.config import ScaleKind
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, name_of, tensor_of
from quarkfast.graph.placement import BiasSlot, Quantizer
from quarkfast.qparams import stored_scale
from quarkfast.wording import counted, first_names

__all__ = ["HEADROOM", "FloatBias", "bias_quantizer", "raise_for_headroom", "raised_note"]

_INT32_MAX = 2**31 - 1
_SMALLEST = float(np.finfo(np.float32).tiny)

# A bias that just fits still leaves no room for the products it is added to, whose sum the runtime keeps in int32 too.
# One bit is left to them, and rounding of the scale to float32 (2^-24) cannot bring the bias back over the limit.
HEADROOM = 2**30


# In int16 it is not itself where sums are kept, and may be as large as a code.
_LARGEST = {32: HEADROOM, 16: 2**15 - 1}


def bias_quantizer(
    data: Quantizer, weight: Quantizer, channels: int, bits: int = 32, kind: ScaleKind = "float32"
) -> Quantizer:
    """Returns int32 with scale ``s_x * s_w``, zero point 0; one scale for each channel if the weight has that.

    Args:
        data: Quantizer of the layer's input.
        weight: Quantizer of its weight.
        channels: Length of the bias. A grouped ConvTranspose has fewer weight channels; they repeat for each group.
        bits: 32, or 16 for int16.
        kind: Where it is ``"half"``, the product is rounded to float16, a subnormal one up.

    Source:
        ONNX Runtime's QLinearConv adds the bias to its int32 sums; Quark 0.13 as well.
    """
    scale = _product(data, weight, channels)
    if kind == "half":
        scale = stored_scale(scale.astype(np.float64), np.float16).astype(np.float32)
    return Quantizer(f"int{bits}", scale, np.zeros(scale.shape, np.int64), 0 if scale.ndim else None)


def raise_for_headroom(
    weight: Quantizer,
    data: Quantizer,
    bias: NDArray[np.float32],
    bits: int = 32,
    kind: ScaleKind = "float32",
) -> Quantizer:
    """Returns `weight` with the scales raised under which ``bias / (s_x * s_w)`` would exceed half of int32's range.

    Of a bias in int16 it is the whole range of that.

    Args:
        weight: Quantizer of the layer's weight.
        data: Quantizer of its input.
        bias: The bias, one value for each channel.
        bits: Of the bias, 32 or 16.
        kind: The set that scales are taken from, and stay in.
    """
    if not bias.size:
        return weight
    magnitude = np.abs(bias.astype(np.float64))
    needed = magnitude / (_LARGEST[bits] * float(data.scale))
    if kind == "power_of_two":
        fraction, exponent = np.frexp(needed)
        needed = np.where(needed > 0, np.ldexp(1.0, exponent - (fraction == 0.5)), 0.0)  # the next one up
    elif kind == "half":
        near = stored_scale(needed, np.float16)
        needed = np.where(near < needed, np.nextafter(near, np.float16(np.inf)), near).astype(np.float64)
    elif kind == "dyadic":
        step = np.ldexp(1.0, np.maximum(np.frexp(needed)[1] - 15, -16))  # of the numbers M / 2^N that are as large
        needed = np.ceil(needed / step) * step
    needed = needed.reshape(-1, weight.scale.size).max(axis=0).reshape(weight.scale.shape)
    short = needed > weight.scale
    if not np.any(short):
        return weight
    return replace(weight, scale=np.where(short, needed, weight.scale).astype(np.float32))


def raised_note(raised: Sequence[BiasSlot]) -> list[str]:
    """Returns what the summary says of layers whose weight has a raised scale; nothing for none."""
    if not raised:
        return []
    layers = f"{counted(len(raised), 'layer')} ({first_names(slot.edge.node for slot in raised)})"
    bits = " and ".join(f"int{bits}" for bits in sorted({slot.bits for slot in raised}))
    return [f"weight scales of {layers} raised so that biases fit into {bits}"]


def _product(data: Quantizer, weight: Quantizer, channels: int) -> NDArray[np.float32]:
    product = np.asarray(data.scale, np.float64) * np.asarray(weight.scale, np.float64)
    if product.ndim and product.size != channels:
        product = np.tile(product, channels // product.size)
    return np.maximum(product, _SMALLEST).astype(np.float32)


@dataclass(frozen=True)
class FloatBias:
    """A float32 vector with one number for each output of a layer.

    Attributes:
        value: The initializer, whose own numbers stay.
        moved: Other numbers, or None.
    """

    value: ir.Value
    moved: NDArray[np.float32] | None = None

    @property
    def values(self) -> ir.TensorProtocol:
        """The bias of the float model."""
        return tensor_of(self.value)

    def with_nearest(self, values: NDArray[np.float32]) -> FloatBias:
        """Returns the bias with other numbers, which float32 holds as they are."""
        return replace(self, moved=values)

    def decoded(self) -> NDArray[np.float32]:
        """Returns what the layer adds."""
        return np.asarray(array_of(self.value), np.float32) if self.moved is None else self.moved

    def store(self, model: ir.Model) -> None:
        """Puts the numbers into the initializer of the same name."""
        name = name_of(self.value)
        model.graph.initializers[name].const_value = ir.Tensor(self.decoded(), name=name)
