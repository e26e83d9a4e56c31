"""A row for each native kernel: how to call it on a flat array, so that one test can hold all of them to one law."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import quarkfast
from conftest import float_bits
from quarkfast import kernels
from quarkfast.formats.scalar import qtype
from quarkfast.kernels.casts import _CODES as FLOAT_CODES
from quarkfast.kernels.gguf import GGUF_TYPES

# Enough for several chunks on each of a few threads (csrc/tensor/elementwise.h), and no multiple of any lane count.
COUNT = 3 * 32768 + 1237
INTEGERS = ("int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32")
F32 = np.dtype(np.float32)
SMALL_FLOATS = ("float16", "bfloat16")
PACKED = (
    ("int4", 4),
    ("uint4", 4),
    ("int2", 2),
    ("uint2", 2),
    *((name, bits) for name in ("int8", "uint8") for bits in (2, 3, 4)),
)


@dataclass(frozen=True)
class Row:
    """One kernel.

    Attributes:
        name: What the test is called.
        source: Makes the input from a generator: a flat array.
        out: dtype of the output.
        run: ``run(x, out, begin)`` writes to ``out`` and returns it; ``begin`` is where x lies in the whole input.
        cut: The input may be cut at multiples of this; 0 where the result is not an array that could be joined.
        out_size: Elements of output for so many elements of input.
    """

    name: str
    source: Callable[[np.random.Generator], Any]
    out: Any
    run: Callable[[Any, Any, int], Any]
    cut: int = 1
    out_size: Callable[[int], int] = lambda n: n

    def __str__(self) -> str:
        return self.name


def floats(rng: np.random.Generator) -> Any:
    return float_bits(rng, COUNT)


def codes(dtype: Any, low: int, high: int) -> Callable[[np.random.Generator], Any]:
    return lambda rng: rng.integers(low, high, COUNT, dtype=np.int64, endpoint=True).astype(dtype)


def any_bits(dtype: Any) -> Callable[[np.random.Generator], Any]:
    return lambda rng: rng.integers(0, 1 << 16, COUNT, dtype=np.uint16).view(dtype)


def linear_rows(name: str, real: str) -> list[Row]:
    """Six kernels of an integer type (eight of 4 bits) and a float: one scale for all elements, or one for each."""
    row = qtype(name)
    rng = np.random.default_rng(7)
    scales = rng.uniform(0.01, 0.2, COUNT).astype(np.float32)
    zeros = rng.integers(row.qmin, row.qmax, COUNT, dtype=np.int64, endpoint=True).astype(row.dtype)

    flipped = np.where(np.arange(COUNT) % 3, scales, -scales)

    def parameters(each: bool, begin: int, n: int) -> dict[str, Any]:
        part = slice(begin, begin + n)
        scale, zero_point = (scales[part], zeros[part]) if each else (scales[0], zeros[0])
        return {"scale": scale, "zero_point": zero_point, "axis": 0}

    def quantize(each: bool) -> Callable[[Any, Any, int], Any]:
        return lambda x, out, begin: quarkfast.quantize_linear(
            x, dtype=name, out=out, **parameters(each, begin, x.size)
        )

    def dequantize(each: bool) -> Callable[[Any, Any, int], Any]:
        return lambda x, out, begin: quarkfast.dequantize_linear(
            x, dtype=real, out=out, **parameters(each, begin, x.size)
        )

    def mirror(each: bool) -> Callable[[Any, Any, int], Any]:
        def call(x: Any, out: Any, begin: int) -> Any:
            given = parameters(each, begin, x.size)
            given["scale"] = flipped[begin : begin + x.size] if each else flipped[0]
            return kernels.quantize_linear_mirrored(x, dtype=name, out=out, **given)

        return call

    def fake(each: bool) -> Callable[[Any, Any, int], Any]:
        return lambda x, out, begin: quarkfast.fake_quantize_linear(
            x, dtype=name, out=out, **parameters(each, begin, x.size)
        )

    real_dtype, real_code = (
        (np.dtype(np.float32), "f32") if real == "float32" else (qtype(real).dtype, qtype(real).code)
    )
    source = floats if real == "float32" else any_bits(real_dtype)
    rows = []
    for each, suffix in ((False, ""), (True, "_channels")):
        given = codes(row.dtype, int(row.qmin), int(row.qmax))
        rows += [
            Row(f"quantize_linear{suffix}_{real_code}_{row.code}", source, row.dtype, quantize(each)),
            Row(f"dequantize_linear{suffix}_{row.code}_{real_code}", given, real_dtype, dequantize(each)),
            Row(f"fake_quantize_linear{suffix}_{real_code}_{row.code}", source, real_dtype, fake(each)),
        ]
        if row.bits == 4:
            rows.append(
                Row(f"quantize_linear_mirrored{suffix}_{real_code}_{row.code}", source, row.dtype, mirror(each))
            )
    return rows


def cast_rows(name: str) -> list[Row]:
    """Down, up and round trip of one small float."""
    row = qtype(name)
    return [
        Row(f"cast_f32_{row.code}", floats, row.dtype, lambda x, out, _: quarkfast.cast(x, row.dtype, out=out)),
        Row(
            f"cast_{row.code}_f32", any_bits(row.dtype), np.float32, lambda x, out, _: quarkfast.cast(x, "f4", out=out)
        ),
        Row(
            f"round_trip_f32_{row.code}",
            floats,
            np.float32,
            lambda x, out, _: quarkfast.round_trip(x, row.dtype, out=out),
        ),
    ]


def linear_float_rows(name: str) -> list[Row]:
    """There and back with one scale, and there with one for each element."""
    row = qtype(name)
    rng = np.random.default_rng(8)
    scales = rng.uniform(0.01, 0.2, COUNT).astype(np.float32)
    zeros = rng.normal(0, 4, COUNT).astype(row.dtype)

    def there(x: Any, out: Any, _: int) -> Any:
        return kernels.quantize_float(x, scales[0], zeros[0], dtype=row.dtype, out=out)

    def there_by_element(x: Any, out: Any, begin: int) -> Any:
        part = slice(begin, begin + x.size)
        return kernels.quantize_float(x, scales[part], zeros[part], dtype=row.dtype, axis=0, out=out)

    def back(x: Any, out: Any, _: int) -> Any:
        return kernels.dequantize_float(x, scales[0], zeros[0], out=out)

    return [
        Row(f"quantize_float_f32_{row.code}", floats, row.dtype, there),
        Row(f"quantize_float_channels_f32_{row.code}", floats, row.dtype, there_by_element),
        Row(f"dequantize_float_{row.code}_f32", any_bits(row.dtype), np.float32, back),
    ]


def small_float_rows(dtype: Any, code: str, in_table: bool) -> list[Row]:
    """Casts of one float type: down and round trip with saturation, and all five where `in_table` is false."""

    def any_code(rng: np.random.Generator) -> Any:
        return rng.integers(0, 256, COUNT, dtype=np.uint8).view(dtype)

    def down(saturate: bool) -> Callable[[Any, Any, int], Any]:
        return lambda x, out, _: quarkfast.cast(x, dtype, saturate=saturate, out=out)

    def trip(saturate: bool) -> Callable[[Any, Any, int], Any]:
        return lambda x, out, _: quarkfast.round_trip(x, dtype, saturate=saturate, out=out)

    rows = [
        Row(f"saturate_f32_{code}", floats, dtype, down(True)),
        Row(f"saturate_round_trip_f32_{code}", floats, np.float32, trip(True)),
    ]
    if in_table:
        return rows
    return [
        *rows,
        Row(f"cast_f32_{code}", floats, dtype, down(False)),
        Row(f"round_trip_f32_{code}", floats, np.float32, trip(False)),
        Row(f"cast_{code}_f32", any_code, np.float32, lambda x, out, _: quarkfast.cast(x, "f4", out=out)),
    ]


def packing_rows(name: str, bits: int) -> list[Row]:
    """Packing and unpacking of one width; eight codes fill whole bytes at every width."""
    row = qtype(name)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if row.signed else (0, (1 << bits) - 1)

    def size(n: int) -> int:
        return -(-n * bits // 8)

    def packed(rng: np.random.Generator) -> Any:
        return rng.integers(0, 256, size(COUNT // 8 * 8), dtype=np.uint8)

    def unpack(x: Any, out: Any, _: int) -> Any:
        return quarkfast.unpack_codes(x, row.dtype, x.size * 8 // bits, bits=bits, out=out)

    def pack(x: Any, out: Any, _: int) -> Any:
        return quarkfast.pack_codes(x, bits=bits, out=out)

    return [
        Row(f"pack_codes_{row.code}_p{bits}", codes(row.dtype, low, high), np.uint8, pack, 8, size),
        Row(f"unpack_codes_p{bits}_{row.code}", packed, row.dtype, unpack, bits, lambda n: n * 8 // bits),
    ]


def column_rows() -> list[Row]:
    """Packing down the columns of a matrix of 32 rows; what is left of the input is not read."""

    def pack(x: Any, out: Any, _: int) -> Any:
        rows = 32 if x.size > 32 else 16
        columns = x.size // rows
        matrix = x[: rows * columns].reshape(rows, columns)
        return kernels.pack_columns(matrix, out=out[: rows * columns // 2].reshape(columns, rows // 2))

    return [Row("pack_columns_p4", codes(qtype("uint4").dtype, 0, 15), np.uint8, pack, cut=0)]


def descent_rows() -> list[Row]:
    """Coordinate descent of rows of 16 codes."""
    n = 16
    rng = np.random.default_rng(9)
    inputs = rng.standard_normal((2 * n, n)) + rng.standard_normal((2 * n, 1))
    gram = inputs.T @ inputs / len(inputs)

    def source(rng: np.random.Generator) -> Any:
        return rng.standard_normal(COUNT // n * n)

    def run(x: Any, out: Any, _: int) -> Any:
        residual = x.reshape(-1, n)
        scale = np.full(len(residual), 0.3)
        nearest = np.zeros(residual.shape, np.int8)
        out[:] = kernels.descend_codes(nearest, scale, gram, residual, qmin=-8, qmax=7, reach=2).reshape(-1)
        return out

    return [Row("descend_codes", source, np.int8, run, cut=0)]


def reduced(name: str) -> Callable[[Any, Any, int], Any]:
    """Return how to call a statistic and make one array of all that it tells."""

    def run(x: Any, _out: Any, _begin: int) -> Any:
        found = getattr(kernels, name)(x)
        parts = [found.counts, found.exponent] if name == "histogram" else [found]
        if name == "extremes":
            parts = list(found)
        if name == "reduce_range":
            parts = list(dataclasses.astuple(found))
        if name == "moments":
            parts = [found.count, found.mean, found.variance]
        return np.concatenate([np.ravel(part).astype(np.float64) for part in parts])

    return run


def statistics_rows(name: str) -> list[Row]:
    def source(rng: np.random.Generator) -> Any:
        return floats(rng) if name == "float32" else quarkfast.cast(floats(rng), name)

    return [
        Row(f"{kernel}_{qtype(name).code if name != 'float32' else 'f32'}", source, np.float64, reduced(kernel), cut=0)
        for kernel in ("reduce_range", "histogram", "moments", "absmax", "extremes")
    ]


def requantize_rows(name: str) -> list[Row]:
    """Six kernels of one 8-bit type: a scale or a shift of either rounding, one for all elements or one for each."""
    row = qtype(name)
    rng = np.random.default_rng(7)
    factors = {
        "linear": np.exp2(rng.uniform(-25, 0, COUNT)).astype(np.float32),
        "shift_half_up": rng.integers(0, 32, COUNT),
        "shift_half_even": rng.integers(0, 32, COUNT),
    }
    zeros = rng.integers(row.qmin, row.qmax, COUNT, endpoint=True).astype(row.dtype)

    def run(way: str, each: bool) -> Callable[[Any, Any, int], Any]:
        def call(x: Any, out: Any, begin: int) -> Any:
            part = slice(begin, begin + x.size)
            factor, zero = (factors[way][part], zeros[part]) if each else (factors[way][0], zeros[0])
            if way == "linear":
                return quarkfast.requantize_linear(x, factor, zero, dtype=name, axis=0, out=out)
            rounding: Any = way.removeprefix("shift_")
            return quarkfast.requantize_shift(x, factor, zero, dtype=name, axis=0, rounding=rounding, out=out)

        return call

    given = codes(np.int32, -(1 << 31), (1 << 31) - 1)
    return [
        Row(f"requantize_{way}{'_channels' * each}_i32_{row.code}", given, row.dtype, run(way, each))
        for way in factors
        for each in (False, True)
    ]


def block_rows(family: str, block: int, record: int, *element: str) -> list[Row]:
    """Rounding of three types of input, storing in records of so many bytes, and reading, of one block format."""
    fake, pack, unpack = (
        getattr(quarkfast, f"{verb}_{family}") for verb in ("fake_quantize", "quantize", "dequantize")
    )

    def size(n: int) -> int:
        return -(-n // block) * record

    def records(rng: np.random.Generator) -> Any:
        return pack(floats(rng), *element).reshape(-1)

    def quantize(x: Any, out: Any, _: int) -> Any:
        return pack(x, *element, out=out.reshape(-1, record))

    def dequantize(x: Any, out: Any, _: int) -> Any:
        return unpack(x.reshape(-1, record), x.size // record * block, *element, out=out)

    def rounding(x: Any, out: Any, _: int) -> Any:
        return fake(x, *element, out=out)

    return [
        Row(f"fake_quantize_{family}_f32", floats, np.float32, rounding, block),
        *(Row(f"fake_quantize_{family}_{qtype(t).code}", any_bits(qtype(t).dtype), qtype(t).dtype, rounding, block)
          for t in SMALL_FLOATS),
        Row(f"quantize_{family}_f32", floats, np.uint8, quantize, block, size),
        Row(f"dequantize_{family}_f32", records, np.float32, dequantize, record, lambda n: n // record * block),
    ]  # fmt: skip


def gguf_rows(name: str) -> list[Row]:
    """Storing and reading of one block type of GGUF."""
    values, record = GGUF_TYPES[name]

    def size(n: int) -> int:
        return n // values * record

    def wholes(rng: np.random.Generator) -> Any:
        return float_bits(rng, COUNT // values * values)

    def records(rng: np.random.Generator) -> Any:
        return rng.integers(0, 256, size(COUNT), dtype=np.uint8)

    def quantize(x: Any, out: Any, _: int) -> Any:
        return quarkfast.quantize_gguf(x, name, out=out)

    def dequantize(x: Any, out: Any, _: int) -> Any:
        return quarkfast.dequantize_gguf(x, name, out=out)

    code = name.lower()
    return [
        Row(f"quantize_gguf_f32_{code}", wholes, np.uint8, quantize, values, size),
        Row(f"dequantize_gguf_{code}_f32", records, np.float32, dequantize, record, lambda n: n // record * values),
    ]


def fp4_rows() -> list[Row]:
    """Codes and scales of one call joined: 512 values make 256 bytes of codes, and 16 or 32 of scales."""

    def wholes(rng: np.random.Generator) -> Any:
        return float_bits(rng, COUNT // 512 * 512)

    def stored(rng: np.random.Generator) -> Any:
        return rng.integers(0, 256, COUNT // 512 * 288, dtype=np.uint8)

    def quantize(function: Callable[..., Any]) -> Callable[[Any, Any, int], Any]:
        def run(x: Any, out: Any, _: int) -> Any:
            codes, scales, *_ = function(x.reshape(-1, 512))
            return np.concatenate([codes, scales.view(np.uint8)], axis=1)

        return run

    def dequantize(function: Callable[..., Any], scales: int) -> Callable[[Any, Any, int], Any]:
        def run(x: Any, out: Any, _: int) -> Any:
            parts = x.reshape(-1, 288)
            return function(np.ascontiguousarray(parts[:, :256]), np.ascontiguousarray(parts[:, 256 : 256 + scales]))

        return run

    return [
        Row("quantize_mxfp4_f32", wholes, np.uint8, quantize(quarkfast.quantize_mxfp4), 512),
        Row("dequantize_mxfp4_f32", stored, np.float32, dequantize(quarkfast.dequantize_mxfp4, 16), 288),
        Row(
            "quantize_nvfp4_f32", wholes, np.uint8, quantize(partial(quarkfast.quantize_nvfp4, tensor_scale=0.02)), 512
        ),
        Row(
            "dequantize_nvfp4_f32",
            stored,
            np.float32,
            dequantize(partial(quarkfast.dequantize_nvfp4, tensor_scale=0.02), 32),
            288,
        ),
    ]


def row_rows() -> list[Row]:
    """Rows of 64 values with their scales."""

    def run(x: Any, out: Any, _: int) -> Any:
        codes, scales = quarkfast.quantize_rows(x.reshape(-1, 64))
        return np.concatenate([codes.view(np.uint8), scales.view(np.uint8)], axis=1)

    return [Row("quantize_rows_f32_i8", lambda rng: float_bits(rng, COUNT // 64 * 64), np.uint8, run, 64)]


def stochastic_rows() -> list[Row]:
    """Random numbers belong to places in the whole, so that no array may be cut."""

    def quantize(name: str, each: bool) -> Callable[[Any, Any, int], Any]:
        def run(x: Any, out: Any, _: int) -> Any:
            scale = np.linspace(0.1, 3, x.size, dtype=np.float32) if each else 0.3
            return quarkfast.quantize_linear_stochastic(x, scale, dtype=name, axis=0, seed=5, out=out)

        return run

    def cast(x: Any, out: Any, _: int) -> Any:
        return quarkfast.cast_stochastic(x, seed=5, out=out)

    rows = [
        Row(
            f"quantize_linear_stochastic{suffix}_f32_{qtype(name).code}",
            floats,
            qtype(name).dtype,
            quantize(name, each),
            0,
        )
        for name in ("int4", "uint4", "int8", "uint8", "int16", "uint16")
        for each, suffix in ((False, ""), (True, "_channels"))
    ]
    return [*rows, Row("cast_stochastic_f32_bf16", floats, qtype("bfloat16").dtype, cast, 0)]


ROWS = [
    *(row for name in INTEGERS for real in ("float32", *SMALL_FLOATS) for row in linear_rows(name, real)),
    *(row for name in SMALL_FLOATS for row in cast_rows(name)),
    *(row for name in SMALL_FLOATS for row in linear_float_rows(name)),
    *(row for name in ("int8", "uint8") for row in requantize_rows(name)),
    *(row for dtype, code in FLOAT_CODES.items() for row in small_float_rows(dtype, code, dtype.itemsize == 2)),
    *(row for name, bits in PACKED for row in packing_rows(name, bits)),
    *column_rows(),
    *descent_rows(),
    *(row for name in ("float32", *SMALL_FLOATS) for row in statistics_rows(name)),
    *block_rows("bfp", 8, 9),
    *block_rows("bfp_prime", 16, 18),
    *block_rows("mx", 32, 25, "fp6_e3m2"),
    *(row for name in GGUF_TYPES for row in gguf_rows(name)),
    *fp4_rows(),
    *row_rows(),
    *stochastic_rows(),
]
