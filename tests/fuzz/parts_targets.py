"""Codes with scales apart, and stochastic rounding, as fuzz targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import quarkfast
from quarkfast import reference
from quarkfast.formats.scalar import qtype

from .draw import Draw

_TYPES = ("int4", "uint4", "int8", "uint8", "int16", "uint16")


def told(arrays: Any) -> Any:
    """Shapes, types and bytes, which compare as a whole."""
    return [(each.shape, str(each.dtype), np.ascontiguousarray(each).tobytes()) for each in map(np.asarray, arrays)]


def _others(d: Draw) -> tuple[int, ...]:
    return tuple(min(n, 9) for n in d.shape())


def _draw_mxfp4(d: Draw) -> dict[str, Any]:
    block = d.pick((16, 32))
    return {"x": d.laid_out(d.floats((*_others(d), block * d.integer(0, 4)))), "block_size": block}


def _mxfp4(x: Any, block_size: int = 32) -> Any:
    return told(reference.quantize_mxfp4(np.ascontiguousarray(x), block_size))


def _bytes(d: Draw, shape: tuple[int, ...]) -> Any:
    return d.laid_out(d.rng.integers(0, 256, shape, dtype=np.uint8))


def _draw_read_mxfp4(d: Draw) -> dict[str, Any]:
    others, block, blocks = _others(d), d.pick((16, 32)), d.integer(0, 4)
    codes, scales = _bytes(d, (*others, blocks * block // 2)), _bytes(d, (*others, blocks))
    return {"codes": codes, "scales": scales, "block_size": block}


def _read_mxfp4(codes: Any, scales: Any, block_size: int = 32) -> Any:
    return reference.dequantize_mxfp4(np.ascontiguousarray(codes), np.ascontiguousarray(scales), block_size)


def _draw_nvfp4(d: Draw) -> dict[str, Any]:
    x = d.laid_out(d.floats((*_others(d), 16 * d.integer(0, 6))))
    return {"x": x, "tensor_scale": d.pick((1.0, 0.013, 2.0**-126, 1e30))}


def _nvfp4(x: Any, tensor_scale: Any = None) -> Any:
    if tensor_scale is None:
        largest = reference.reduce_absmax(np.ravel(x)[None], 0)[0]
        tensor_scale = np.maximum(largest / np.float32(2688), np.finfo(np.float32).tiny)
    codes, scales = reference.quantize_nvfp4(np.ascontiguousarray(x), tensor_scale)
    return told((codes, scales, np.float32(tensor_scale)))


def _draw_read_nvfp4(d: Draw) -> dict[str, Any]:
    others, blocks = _others(d), d.integer(0, 6)
    codes, scales = _bytes(d, (*others, blocks * 8)), _bytes(d, (*others, blocks))
    return {"codes": codes, "scales": scales, "tensor_scale": d.pick((1.0, 0.013, 2.0**-126, 1e30))}


def _read_nvfp4(codes: Any, scales: Any, tensor_scale: Any) -> Any:
    return reference.dequantize_nvfp4(np.ascontiguousarray(codes), np.ascontiguousarray(scales), tensor_scale)


def _draw_rows(d: Draw) -> dict[str, Any]:
    shape = d.shape(1) or (1,)
    out = {"out": d.output(shape, np.int8)} if d.chance(0.4) else {}
    return {"x": d.laid_out(d.floats(shape)), **out}


def _rows(x: Any, out: Any = None) -> Any:
    return told(reference.quantize_rows(np.asarray(x)))


def _draw_stochastic(d: Draw) -> dict[str, Any]:
    row, shape = qtype(d.pick(_TYPES)), d.shape()
    axis = d.integer(-len(shape), len(shape) - 1) if shape else 0
    scales = (shape[axis],) if shape and d.chance(0.6) else ()
    arguments: dict[str, Any] = {"x": d.laid_out(d.floats(shape)), "scale": d.scales(scales), "dtype": row.name}
    if d.chance(0.7):
        arguments["zero_point"] = d.codes(row.dtype, int(row.qmin), int(row.qmax), scales)
    out = {"out": d.output(shape, row.dtype)} if d.chance(0.4) else {}
    return arguments | {"axis": axis, "seed": d.integer(0, (1 << 63) - 1)} | out


def _stochastic(
    x: Any, scale: Any, zero_point: Any = None, seed: int = 0, dtype: Any = np.int8, axis: int = 1, out: Any = None
) -> Any:
    scale = np.asarray(scale, np.float32)
    zeros = np.zeros(scale.shape, np.int64) if zero_point is None else np.asarray(zero_point).astype(np.int64)
    each = [reference.per_element(values, x.shape, axis, 0) for values in (scale, zeros)]
    return reference.quantize_linear_stochastic(np.ascontiguousarray(x).reshape(x.shape), *each, dtype, seed)


def _draw_cast(d: Draw) -> dict[str, Any]:
    shape = d.shape()
    out = {"out": d.output(shape, qtype("bfloat16").dtype)} if d.chance(0.4) else {}
    return {"x": d.laid_out(d.floats(shape)), "seed": d.integer(0, (1 << 63) - 1), **out}


def _cast(x: Any, seed: int, out: Any = None) -> Any:
    return reference.cast_stochastic(np.ascontiguousarray(x), seed).reshape(np.shape(x))


#: Name: function, how to draw a right call, what it should answer.
CALLS: dict[str, tuple[Callable[..., Any], Callable[[Draw], dict[str, Any]], Callable[..., Any]]] = {
    "quantize_mxfp4": (lambda **given: told(quarkfast.quantize_mxfp4(**given)), _draw_mxfp4, _mxfp4),
    "dequantize_mxfp4": (quarkfast.dequantize_mxfp4, _draw_read_mxfp4, _read_mxfp4),
    "quantize_nvfp4": (lambda **given: told(quarkfast.quantize_nvfp4(**given)), _draw_nvfp4, _nvfp4),
    "dequantize_nvfp4": (quarkfast.dequantize_nvfp4, _draw_read_nvfp4, _read_nvfp4),
    "quantize_rows": (lambda **given: told(quarkfast.quantize_rows(**given)), _draw_rows, _rows),
    "quantize_linear_stochastic": (quarkfast.quantize_linear_stochastic, _draw_stochastic, _stochastic),
    "cast_stochastic": (quarkfast.cast_stochastic, _draw_cast, _cast),
}
