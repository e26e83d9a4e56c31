"""What is fuzzed: a row for each public kernel with how to draw a right call and what the reference answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import quarkfast
from quarkfast import kernels, reference
from quarkfast.formats.scalar import qtype

from . import block_targets, cast_targets, descent_targets, gguf_targets, packing_targets, parts_targets, range_targets
from .draw import Draw

INTEGERS = ("int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32")
SMALL_FLOATS = ("float16", "bfloat16")


@dataclass(frozen=True)
class Target:
    """One public function.

    Attributes:
        call: The function.
        draw: Draws the arguments of a right call, all by keyword.
        expected: The reference's answer to the same arguments.
    """

    call: Callable[..., Any]
    draw: Callable[[Draw], dict[str, Any]]
    expected: Callable[..., Any]


def _real(d: Draw, shape: tuple[int, ...]) -> Any:
    """float32 values, or what remains of them in 16 bits."""
    x = d.floats(shape)
    return x if d.chance(0.6) else quarkfast.cast(x, d.pick(SMALL_FLOATS))


def _scales(d: Draw, shape: tuple[int, ...]) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Axis and block size as keywords, and the shape of the scales: per tensor, channel or block."""
    if not shape or d.chance(0.3):
        return {}, d.pick(((), (1,)))
    axis = d.integer(-len(shape), len(shape) - 1)
    if d.chance(0.5):
        return {"axis": axis}, (shape[axis],)
    block = d.pick((1, 2, 3, 16, 32, 1000))
    scales = list(shape)
    scales[axis] = -(-shape[axis] // block)
    return {"axis": axis, "block_size": block}, tuple(scales)


def _linear(d: Draw) -> tuple[dict[str, Any], tuple[int, ...], Any]:
    """The arguments that the three linear functions share, the shape of x and the row of the integer type."""
    row, shape = qtype(d.pick(INTEGERS)), d.shape()
    arguments, scales = _scales(d, shape)
    arguments["scale"] = d.scales(scales)
    if d.chance(0.7):
        arguments["zero_point"] = d.codes(row.dtype, int(row.qmin), int(row.qmax), scales)
    return arguments, shape, row


def _draw_quantize(d: Draw, in_place: bool = False) -> dict[str, Any]:
    arguments, shape, row = _linear(d)
    x = _real(d, shape)
    arguments |= {"x": d.laid_out(x), "dtype": d.pick((row.name, row.dtype))}
    if "zero_point" not in arguments and d.chance(0.3):
        low, high = int(row.qmin), int(row.qmax)
        ends = sorted((d.integer(low, high), d.integer(low, high)))
        if ends[0] <= 0 <= ends[1]:
            arguments["qmin"], arguments["qmax"] = ends
    if d.chance(0.4):
        arguments["out"] = d.output(shape, x.dtype if in_place else row.dtype)
    if in_place and d.chance(0.2):
        arguments["x"] = arguments["out"] = np.array(arguments["x"], order="C")
    return arguments


def _draw_mirrored(d: Draw) -> dict[str, Any]:
    arguments = _draw_quantize(d)
    while arguments["dtype"] not in ("int4", "uint4") or "qmin" in arguments:
        arguments = _draw_quantize(d)
    signs = d.codes(np.int64, 0, 1, np.shape(arguments["scale"])) * 2 - 1
    return arguments | {"scale": np.float32(arguments["scale"] * signs)}


def _draw_dequantize(d: Draw) -> dict[str, Any]:
    arguments, shape, row = _linear(d)
    arguments["x"] = d.laid_out(d.codes(row.dtype, int(row.qmin), int(row.qmax), shape))
    real = np.dtype(np.float32) if d.chance(0.6) else qtype(d.pick(SMALL_FLOATS)).dtype
    if real != np.float32 or d.chance(0.2):
        arguments["dtype"] = real
    if d.chance(0.4):
        arguments["out"] = d.output(shape, real)
    return arguments


def _each(x: Any, scale: Any, zero_point: Any, axis: int, block_size: int) -> list[Any]:
    scale = np.asarray(scale, np.float32)
    zero_point = np.zeros(scale.shape, np.int64) if zero_point is None else np.asarray(zero_point).astype(np.int64)
    block_size = min(block_size, max(*x.shape, 1, 1))  # a longer block is one block, and np.repeat would make it
    return [reference.per_element(values, x.shape, axis, block_size) for values in (scale, zero_point)]


def _quantized(
    x: Any, scale: Any, zero_point: Any = None, dtype: Any = np.int8, axis: int = 1, block_size: int = 0, **rest: Any
) -> Any:
    each = _each(x, scale, zero_point, axis, block_size)
    return reference.quantize_linear(x, *each, dtype, rest.get("qmin"), rest.get("qmax"))


def _dequantized(
    x: Any, scale: Any, zero_point: Any = None, axis: int = 1, block_size: int = 0, dtype: Any = "f4", out: Any = None
) -> Any:
    return reference.dequantize_linear(x, *_each(x, scale, zero_point, axis, block_size), dtype)


def _fake_quantized(
    x: Any, scale: Any, zero_point: Any = None, dtype: Any = np.int8, axis: int = 1, block_size: int = 0, **rest: Any
) -> Any:
    each = _each(x, scale, zero_point, axis, block_size)
    return reference.fake_quantize_linear(x, *each, dtype, rest.get("qmin"), rest.get("qmax"))


def _float_linear(d: Draw) -> tuple[dict[str, Any], tuple[int, ...], Any]:
    """The arguments that the two functions of 16-bit floats share, the shape of x and the type."""
    dtype, shape = qtype(d.pick(SMALL_FLOATS)).dtype, d.shape()
    arguments, scales = _scales(d, shape)
    arguments["scale"] = d.scales(scales)
    if d.chance(0.7):
        arguments["zero_point"] = d.codes(np.int64, -500, 500, scales).astype(dtype)
    return arguments, shape, dtype


def _draw_quantize_float(d: Draw) -> dict[str, Any]:
    arguments, shape, dtype = _float_linear(d)
    arguments |= {"x": d.laid_out(d.floats(shape)), "dtype": dtype}
    return arguments | ({"out": d.output(shape, dtype)} if d.chance(0.4) else {})


def _draw_dequantize_float(d: Draw) -> dict[str, Any]:
    arguments, shape, dtype = _float_linear(d)
    arguments["x"] = d.laid_out(quarkfast.cast(d.floats(shape), dtype))
    return arguments | ({"out": d.output(shape, np.dtype(np.float32))} if d.chance(0.4) else {})


def _float_each(x: Any, scale: Any, zero_point: Any, dtype: Any, axis: int, block_size: int) -> list[Any]:
    scales, _ = _each(x, scale, None, axis, block_size)
    zeros = np.zeros((), dtype) if zero_point is None else zero_point
    if np.size(zeros) == 1:
        return [scales, np.broadcast_to(np.reshape(zeros, ()), x.shape)]
    block_size = min(block_size, max(*x.shape, 1, 1))
    return [scales, reference.per_element(zeros, x.shape, axis, block_size)]


def _quantized_float(
    x: Any, scale: Any, zero_point: Any = None, dtype: Any = None, axis: int = 1, block_size: int = 0, out: Any = None
) -> Any:
    return reference.quantize_float(x, *_float_each(x, scale, zero_point, dtype, axis, block_size))


def _dequantized_float(
    x: Any, scale: Any, zero_point: Any = None, axis: int = 1, block_size: int = 0, out: Any = None
) -> Any:
    return reference.dequantize_float(x, *_float_each(x, scale, zero_point, x.dtype, axis, block_size))


def _draw_requantize(d: Draw, by_shift: bool = False) -> dict[str, Any]:
    row, shape = qtype(d.pick(("int8", "uint8"))), d.shape()
    arguments, factors = _scales(d, shape)
    while "block_size" in arguments:
        arguments, factors = _scales(d, shape)
    info = np.iinfo(np.int32)
    arguments |= {"x": d.laid_out(d.codes(np.int32, info.min, info.max, shape)), "dtype": d.pick((row.name, row.dtype))}
    if d.chance(0.7):
        arguments["zero_point"] = d.codes(row.dtype, int(row.qmin), int(row.qmax), factors)
    if d.chance(0.4):
        arguments["out"] = d.output(shape, row.dtype)
    if by_shift:
        return arguments | {"shift": d.codes(np.int64, 0, 31, factors), "rounding": d.pick(("half_up", "half_even"))}
    return arguments | {"scale": d.scales(factors)}


def _requantized(
    x: Any, scale: Any, zero_point: Any = None, dtype: Any = np.int8, axis: int = 1, out: Any = None
) -> Any:
    return reference.requantize_linear(x, *_each(x, scale, zero_point, axis, 0), dtype)


def _shifted(
    x: Any, shift: Any, zero_point: Any = None, dtype: Any = np.int8, axis: int = 1, rounding: str = "half_up", **_: Any
) -> Any:
    return reference.requantize_shift(x, *_each(x, shift, zero_point, axis, 0), dtype, rounding)


def _draw_floats(d: Draw) -> dict[str, Any]:
    return {"x": d.laid_out(_real(d, d.shape()))}


def _draw_absmax(d: Draw) -> dict[str, Any]:
    arguments = _draw_floats(d)
    rank = arguments["x"].ndim
    return arguments | ({"channel_axis": d.integer(-rank, rank - 1)} if rank and d.chance(0.7) else {})


def _draw_extremes(d: Draw) -> dict[str, Any]:
    arguments = _draw_absmax(d)
    while not arguments["x"].size:
        arguments = _draw_absmax(d)
    return arguments | (
        {"block_size": d.pick((1, 2, 3, 16, 32, 1000))} if "channel_axis" in arguments and d.chance(0.5) else {}
    )


def _told_extremes(**arguments: Any) -> Any:
    return np.stack(kernels.extremes(**arguments))


def _extremes(x: Any, channel_axis: Any = None, block_size: Any = 0) -> Any:
    if channel_axis is None:
        return np.stack(reference.reduce_extremes(np.asarray(x)[None], 0))[:, 0]
    return np.stack(reference.reduce_extremes(x, channel_axis, block_size))


def _absmax(x: Any, channel_axis: Any = None) -> Any:
    if channel_axis is None:
        return reference.reduce_absmax(np.ravel(x)[None], 0)[0]
    return reference.reduce_absmax(x, channel_axis)


def _range(x: Any) -> Any:
    return quarkfast.Range(**reference.reduce_range(x))


def _told_histogram(x: Any) -> Any:
    found = quarkfast.histogram(x)
    return found.counts.tolist(), found.exponent, found.range


def _histogram(x: Any) -> Any:
    counts, exponent = reference.count_histogram(x)
    return counts.tolist(), exponent, _range(x)


def _told_moments(x: Any) -> Any:
    found = quarkfast.moments(x)
    return found.count, found.sum, found.squares


TARGETS = {
    "quantize_linear": Target(quarkfast.quantize_linear, _draw_quantize, _quantized),
    "dequantize_linear": Target(quarkfast.dequantize_linear, _draw_dequantize, _dequantized),
    "fake_quantize_linear": Target(
        quarkfast.fake_quantize_linear, lambda d: _draw_quantize(d, in_place=True), _fake_quantized
    ),
    "quantize_linear_mirrored": Target(kernels.quantize_linear_mirrored, _draw_mirrored, _quantized),
    "quantize_float": Target(kernels.quantize_float, _draw_quantize_float, _quantized_float),
    "dequantize_float": Target(kernels.dequantize_float, _draw_dequantize_float, _dequantized_float),
    "requantize_linear": Target(quarkfast.requantize_linear, _draw_requantize, _requantized),
    "requantize_shift": Target(quarkfast.requantize_shift, lambda d: _draw_requantize(d, by_shift=True), _shifted),
    "reduce_range": Target(quarkfast.reduce_range, _draw_floats, _range),
    "histogram": Target(_told_histogram, _draw_floats, _histogram),
    "moments": Target(_told_moments, _draw_floats, reference.sum_moments),
    "absmax": Target(quarkfast.absmax, _draw_absmax, _absmax),
    "extremes": Target(_told_extremes, _draw_extremes, _extremes),
    **{
        name: Target(*row)
        for calls in (
            cast_targets.CALLS,
            descent_targets.CALLS,
            gguf_targets.CALLS,
            packing_targets.CALLS,
            parts_targets.CALLS,
            range_targets.CALLS,
        )
        for name, row in calls.items()
    },
    **{
        f"{verb}_{family}": Target(getattr(quarkfast, f"{verb}_{family}"), draw(family), expected(family))
        for family in ("bfp", "bfp_prime", "mx")
        for verb, (draw, expected) in block_targets.CALLS.items()
    },
}
