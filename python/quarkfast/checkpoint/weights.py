"""Weights of a checkpoint: as floats, read from any of its types, and quantized."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from quarkfast.checkpoint.folder import CONFIG, CheckpointFolder
from quarkfast.checkpoint.safetensors_files import StoredTensor
from quarkfast.checkpoint.schemes import WeightScheme
from quarkfast.errors import ModelError, shown
from quarkfast.kernels import cast, dequantize_linear

__all__ = ["FloatWeight", "QuantizedWeight", "block_of", "float_weights", "scale_shape", "spread_blocks"]


@dataclass(frozen=True, eq=False)
class QuantizedWeight:
    """Codes of a weight ``[outputs, inputs]`` and their scales.

    Attributes:
        scheme: How it was quantized.
        codes: Of the element's dtype.
        scale: One for each block, ``[ceil(outputs / block rows), ceil(inputs / block columns)]``, of the dtype in which
            it is stored; None for elements that need none.
        zero_point: Codes of the shape of `scale`, or None where symmetric.
        global_scale: What the scales are divided by, float32; None for 1.
    """

    scheme: WeightScheme
    codes: NDArray[Any]
    scale: NDArray[Any] | None = None
    zero_point: NDArray[Any] | None = None
    global_scale: np.float32 | None = None

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        """What some rows stand for, float32; `begin` is a multiple of a block's rows."""
        codes = self.codes[begin:end]
        if self.scale is None:
            return _widened(codes)
        height, width = block_of(self.scheme, self.codes.shape)
        first, last = begin // height, -(-end // height)
        scale = _widened(self.scale[first:last])
        if self.global_scale is not None:
            scale = scale / self.global_scale
        if self.scheme.element.is_integer and height == 1 and self.scheme.scale == "float":
            zero = None if self.zero_point is None else self.zero_point[first:last]
            exact: NDArray[np.float32] = dequantize_linear(codes, scale, zero, axis=1, block_size=width)
            return exact
        values = _widened(codes)
        if self.scheme.element.is_integer and self.scheme.scale == "e8m0":
            values = values / np.float32(64)  # as MXINT8 has it: codes are in steps of 1/64
        product: NDArray[np.float32] = values * spread_blocks(scale, (height, width), values.shape)
        return product


def block_of(scheme: WeightScheme, shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns that share a scale.

    Example:
        >>> from quarkfast.checkpoint.schemes import scheme_of
        >>> block_of(scheme_of("int4_wo_64"), (8, 128)), block_of(scheme_of("fp8"), (8, 128))
        ((1, 64), (8, 128))
    """
    if scheme.granularity == "tensor":
        return max(shape[0], 1), max(shape[1], 1)
    if scheme.granularity == "channel":
        return 1, max(shape[1], 1)
    return (scheme.group_size if scheme.granularity == "block" else 1), scheme.group_size


def scale_shape(scheme: WeightScheme, shape: tuple[int, ...]) -> tuple[int, int]:
    """The shape of the scales of a weight of `shape`."""
    height, width = block_of(scheme, shape)
    return -(-shape[0] // height), -(-shape[1] // width)


def spread_blocks(values: NDArray[Any], block: tuple[int, int], shape: tuple[int, ...]) -> NDArray[Any]:
    """One value of each block, for each element of a matrix of `shape`."""
    height, width = block
    tall = values if height == 1 else np.repeat(values, height, axis=0)[: shape[0]]
    return np.repeat(tall, width, axis=1)[:, : shape[1]]


def _widened(array: NDArray[Any]) -> NDArray[np.float32]:
    if array.dtype == np.float32:
        return array
    if array.dtype.kind in "iu":
        return array.astype(np.float32)
    return cast(array, np.float32)


_FLOATS = ("F64", "F32", "F16", "BF16")
_FP8 = ("F8_E4M3", "F8_E5M2")
_SCALE_SUFFIXES = ("weight_scale_inv", "weight_scale")
_AT_ONCE = 1 << 22  # elements that are widened at a time: 16 MB of float32


@dataclass(frozen=True, eq=False)
class FloatWeight:
    """A tensor of a checkpoint that holds floats.

    Attributes:
        stored: The tensor in the file.
        scale: What FP8 codes are multiplied with, float32 ``[rows / block, columns / block]``, or None.
        block: Rows and columns that share a scale.
    """

    stored: StoredTensor
    scale: NDArray[np.float32] | None = None
    block: tuple[int, int] = (1, 1)

    @property
    def name(self) -> str:
        """The tensor's name."""
        return self.stored.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self.stored.shape

    @property
    def kind(self) -> str:
        """The type in which it is kept where it stays float: its own, or BF16 for FP8."""
        return self.stored.kind if self.scale is None else "BF16"

    def rows(self, begin: int, end: int) -> NDArray[np.float32]:
        """Some rows of a matrix as float32."""
        part = self.stored.array()[begin:end]
        if self.scale is None:
            return _as_float32(part)
        height, width = self.block
        first, last = begin // height, -(-end // height)
        scale = np.repeat(self.scale[first:last], height, axis=0)[begin - first * height :][: end - begin]
        return _as_float32(part) * np.repeat(scale, width, axis=1)[:, : part.shape[1]]

    def chunks(self, multiple: int = 1) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The first row and the rows of each part of a matrix, of a few megabytes and of a multiple of rows."""
        height, width = self.shape
        step = max(_AT_ONCE // max(width, 1) // multiple, 1) * multiple
        for begin in range(0, height, step):
            yield begin, self.rows(begin, min(begin + step, height))

    def kept(self) -> NDArray[Any]:
        """The whole tensor in the type in which it is kept."""
        if self.scale is None:
            return self.stored.array()
        out = np.empty(self.shape, ml_dtypes.bfloat16)
        for begin, rows in self.chunks():
            cast(rows, ml_dtypes.bfloat16, out=out[begin : begin + len(rows)])
        return out


def float_weights(folder: CheckpointFolder) -> dict[str, FloatWeight]:
    """The float tensors of a checkpoint by name; scales of FP8 go with their weights and are none themselves.

    Raises:
        ModelError: If the checkpoint is quantized otherwise than to FP8 with scales, or a scale does not fit.
    """
    quantized = folder.config.get("quantization_config") or {}
    method = quantized.get("quant_method") if isinstance(quantized, dict) else quantized
    if quantized and method != "fp8":
        raise ModelError(
            f"{folder.path / CONFIG}: expected a float or FP8 checkpoint, got one quantized as {shown(method)}"
        )
    block = tuple(quantized.get("weight_block_size") or (128, 128))
    tensors = folder.tensors
    found = {}
    for name, tensor in tensors.items():
        if tensor.kind in _FP8:
            found[name] = _fp8_weight(tensor, tensors, block)
        elif tensor.kind in _FLOATS and _scaled_weight(name, tensors) is None:
            found[name] = FloatWeight(tensor)
    return found


def _scaled_weight(name: str, tensors: Mapping[str, StoredTensor]) -> StoredTensor | None:
    """The FP8 weight that a tensor is the scale of."""
    module, _, last = name.rpartition(".")
    weight = tensors.get(f"{module}.weight")
    return weight if last in _SCALE_SUFFIXES and weight is not None and weight.kind in _FP8 else None


def _fp8_weight(tensor: StoredTensor, tensors: Mapping[str, StoredTensor], block: tuple[Any, ...]) -> FloatWeight:
    module = tensor.name.removesuffix("weight")
    stored = next((tensors[module + suffix] for suffix in _SCALE_SUFFIXES if module + suffix in tensors), None)
    if stored is None or len(tensor.shape) != 2:
        raise ModelError(
            f"{shown(tensor.name)}: expected a matrix of FP8 beside its weight_scale_inv, got {tensor.shape}"
        )
    if len(block) != 2 or not all(isinstance(size, int) and size > 0 for size in block):
        raise ModelError(f"weight_block_size: expected two sizes, got {shown(block)}")
    scale = _as_float32(stored.array())
    if scale.size == 1:
        scale, block = scale.reshape(1, 1), tensor.shape
    elif scale.size == tensor.shape[0] and scale.ndim in (1, 2):
        scale, block = scale.reshape(-1, 1), (1, tensor.shape[1])
    expected = tuple(-(-size // each) for size, each in zip(tensor.shape, block, strict=True))
    if scale.shape != expected:
        raise ModelError(f"{shown(stored.name)}: expected scales of shape {expected}, got {stored.shape}")
    return FloatWeight(tensor, scale, (block[0], block[1]))


def _as_float32(part: NDArray[Any]) -> NDArray[np.float32]:
    if part.dtype == np.float32:
        return np.asarray(part)
    if part.dtype == np.float64:
        return part.astype(np.float32)
    return cast(part, np.float32)
