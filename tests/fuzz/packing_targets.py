"""Packed codes as fuzz targets: streams of bits, the layout of MatMulNBits, blocks with scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import quarkfast
from quarkfast import kernels, reference
from quarkfast.formats.scalar import qtype
from quarkfast.kernels import MatMulNBits

from .draw import Draw


def _draw_width(d: Draw) -> tuple[Any, int, dict[str, int]]:
    row = qtype(d.pick(("int2", "uint2", "int4", "uint4", "int8", "uint8")))
    if row.bits < 8:
        return row, row.bits, {}
    bits = d.integer(2, 4)
    return row, bits, {"bits": bits}


def _draw_pack(d: Draw) -> dict[str, Any]:
    row, bits, arguments = _draw_width(d)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if row.signed else (0, (1 << bits) - 1)
    x = d.laid_out(d.codes(row.dtype, low, high, d.shape()))
    out = {"out": d.output((-(-x.size * bits // 8),), np.uint8)} if d.chance(0.4) else {}
    return {"x": x, **arguments, **out}


def _packed(x: Any, bits: Any = None, out: Any = None) -> Any:
    return reference.pack_codes(x, bits or qtype(x.dtype).bits)


def _draw_columns(d: Draw) -> dict[str, Any]:
    name = d.pick(("int4", "uint4"))
    low, high = (-8, 7) if name == "int4" else (0, 15)
    k, n = 16 * d.integer(0, 20), d.integer(0, 140)
    x = d.laid_out(d.codes(qtype(name).dtype, low, high, (k, n)))
    return {"x": x} | ({"out": d.output((n, k // 2), np.uint8)} if d.chance(0.4) else {})


def _packed_columns(x: Any, out: Any = None) -> Any:
    return reference.pack_columns(x)


def _draw_unpack(d: Draw) -> dict[str, Any]:
    row, bits, arguments = _draw_width(d)
    shape = d.shape()
    size = -(-int(np.prod(shape)) * bits // 8)
    x = d.laid_out(d.rng.integers(0, 256, size, dtype=np.uint8))
    out = {"out": d.output(shape, row.dtype)} if d.chance(0.4) else {}
    return {"x": x, "dtype": row.dtype, "shape": shape, **arguments, **out}


def _unpacked(x: Any, dtype: Any, shape: Any, bits: Any = None, out: Any = None) -> Any:
    row = qtype(dtype)
    codes = reference.unpack_codes(x, int(np.prod(shape)), bits or row.bits, row.signed)
    return codes.astype(row.dtype).reshape(shape)


def _ends(row: Any, bits: int) -> tuple[int, int]:
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if row.signed else (0, (1 << bits) - 1)


def _draw_blocks(d: Draw, names: tuple[str, ...], widths: tuple[int, ...]) -> tuple[Any, int, Callable[..., Any]]:
    """A type, a width that it holds, and a source of its codes."""
    row = qtype(d.pick(names))
    bits = row.bits if row.bits < 8 else d.pick(widths)
    low, high = _ends(row, bits)
    return row, bits, lambda shape: d.laid_out(d.codes(row.dtype, low, high, shape))


def _draw_linear_blocks(d: Draw) -> dict[str, Any]:
    row, bits, codes = _draw_blocks(d, ("int2", "uint2", "int4", "uint4", "int8", "uint8"), (2, 3, 4, 8))
    shape = tuple(min(n, 300) for n in d.shape(1)) or (1,)
    axis, block = d.integer(-len(shape), len(shape) - 1), d.pick((8, 16, 32, 256))
    scales = list(shape)
    scales[axis] = -(-shape[axis] // block)
    arguments = {"codes": codes(shape), "scale": d.scales(tuple(scales)), "axis": axis, "block_size": block}
    if row.bits == 8:
        arguments["bits"] = bits
    return arguments | ({"zero_point": codes(tuple(scales))} if d.chance(0.5) else {})


def _linear_blocks(
    codes: Any, scale: Any, zero_point: Any = None, axis: int = -1, block_size: int = 32, bits: Any = None
) -> Any:
    codes, scale = np.asarray(codes), np.asarray(scale)
    zeros = None if zero_point is None else np.asarray(zero_point)
    return reference.pack_linear_blocks(codes, scale, zeros, axis, block_size, bits or qtype(codes.dtype).bits)


def _draw_nbits(d: Draw) -> dict[str, Any]:
    _, bits, codes = _draw_blocks(d, ("int2", "uint2", "int4", "uint4", "int8", "uint8"), (2, 4, 8))
    k, n, block = d.integer(0, 70), d.integer(0, 5), d.pick((16, 32, 64))
    scales = (-(-k // block), n)
    arguments = {"codes": codes((k, n)), "scale": d.scales(scales), "block_size": block, "bits": bits}
    return arguments | ({"zero_point": codes(scales)} if d.chance(0.5) else {})


def _columns(codes: Any, scale: Any, zero_point: Any, block_size: int, bits: int) -> MatMulNBits:
    """The layout told column by column and block by block."""
    codes, scale = np.asarray(codes), np.asarray(scale)
    zeros = np.zeros(scale.shape, codes.dtype) if zero_point is None else np.asarray(zero_point)
    shift = (1 << (bits - 1)) if qtype(codes.dtype).signed else 0
    codes, zeros = (each.astype(np.int16) + shift for each in (codes, zeros))
    (k, n), blocks = codes.shape, len(scale)
    weight = np.zeros((n, blocks, block_size * bits // 8), np.uint8)
    points = np.zeros((n, -(-blocks * bits // 8)), np.uint8)
    for column in range(n):
        points[column] = reference.pack_codes(zeros[:, column], bits)
        for block in range(blocks):
            values = np.full(block_size, zeros[block, column])
            given = codes[block * block_size : min((block + 1) * block_size, k), column]
            values[: given.size] = given
            weight[column, block] = reference.pack_codes(values, bits)
    return MatMulNBits(weight, scale.T.reshape(-1), points.reshape(-1))


def _told(arrays: Any) -> Any:
    """Shapes, types and bytes, which compare as a whole."""
    return [(each.shape, str(each.dtype), np.ascontiguousarray(each).tobytes()) for each in arrays]


def _told_nbits(**arguments: Any) -> Any:
    return _told(quarkfast.pack_matmul_nbits(**arguments))


def _nbits(codes: Any, scale: Any, block_size: int, bits: int = 4, zero_point: Any = None) -> Any:
    return _told(_columns(codes, scale, zero_point, block_size, bits))


def _draw_unpack_nbits(d: Draw) -> dict[str, Any]:
    given = _draw_nbits(d)
    settings = {name: given[name] for name in ("block_size", "bits")}
    return {"packed": quarkfast.pack_matmul_nbits(**given), "k": given["codes"].shape[0], **settings}


def _told_unpacked(**arguments: Any) -> Any:
    return _told(quarkfast.unpack_matmul_nbits(**arguments))


def _unpacked_nbits(packed: Any, k: int, block_size: int, bits: int = 4) -> Any:
    """What gives these bytes when it is packed: every column and block on its own."""
    (n, blocks, _), weight = packed.weight.shape, np.asarray(packed.weight)
    codes = [
        np.concatenate([reference.unpack_codes(block, block_size, bits, False) for block in column] or [[]])[:k]
        for column in weight
    ]
    points = np.asarray(packed.zero_point).reshape(n, -(-blocks * bits // 8))
    zeros = [reference.unpack_codes(column, blocks, bits, False) for column in points]
    parts = np.array(codes, np.uint8).reshape(n, k), np.array(zeros, np.uint8).reshape(n, blocks)
    return _told([parts[0].T, np.asarray(packed.scale).reshape(n, blocks).T, parts[1].T])


#: Name: function, how to draw a right call, what it should answer.
CALLS: dict[str, tuple[Callable[..., Any], Callable[[Draw], dict[str, Any]], Callable[..., Any]]] = {
    "pack_codes": (quarkfast.pack_codes, _draw_pack, _packed),
    "pack_columns": (kernels.pack_columns, _draw_columns, _packed_columns),
    "unpack_codes": (quarkfast.unpack_codes, _draw_unpack, _unpacked),
    "pack_linear_blocks": (quarkfast.pack_linear_blocks, _draw_linear_blocks, _linear_blocks),
    "pack_matmul_nbits": (_told_nbits, _draw_nbits, _nbits),
    "unpack_matmul_nbits": (_told_unpacked, _draw_unpack_nbits, _unpacked_nbits),
}
