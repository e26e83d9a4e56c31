"""The block formats as fuzz targets: rounding, storing and reading of each family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import quarkfast
from quarkfast import reference
from quarkfast.formats.scalar import qtype
from quarkfast.reference import blocks

from .draw import Draw

_ROUNDINGS = ("half_away", "half_up", "half_even")
_ELEMENTS = ("fp8_e5m2", "fp8_e4m3", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "int8")
_DEFAULT_BLOCK = {"bfp": 8, "bfp_prime": 16, "mx": 32}
# What the reference's functions on single blocks are not told.
_OF_ARRAYS = ("axis", "block_size", "out")


def _settings(d: Draw, family: str, stored: bool, rounds: bool = True) -> dict[str, Any]:
    """Settings of a format; stored ones have blocks and widths that fill whole bytes."""
    settings: dict[str, Any] = {"block_size": d.pick((8, 16, 32, 64) if stored else (1, 2, 6, 8, 16, 32, 100))}
    if rounds:
        settings["rounding"] = d.pick(_ROUNDINGS)
    if family == "mx":
        settings["element"] = d.pick(_ELEMENTS)
        return settings | ({} if stored else {"rule": d.pick(("quark", "ocp"))})
    settings["bit_width"] = d.integer(10, 16 if stored else 24)
    if family == "bfp":
        return settings | ({"raise_exponent": d.chance(0.5)} if rounds else {})
    # Stored shifts fill whole bytes.
    settings["sub_block_size"] = d.pick((1, 2) if settings["block_size"] % (16 if stored else 2) == 0 else (1,))
    settings["shift_bits"] = d.integer(1, 3)
    return settings


def _shape(d: Draw) -> tuple[int, ...]:
    return d.shape(1) or (1,)


def draw_fake(family: str) -> Callable[[Draw], dict[str, Any]]:
    def draw(d: Draw) -> dict[str, Any]:
        shape = _shape(d)
        x = d.floats(shape)
        x = x if d.chance(0.6) else quarkfast.cast(x, d.pick(("float16", "bfloat16")))
        out = {"out": d.output(shape, x.dtype)} if d.chance(0.4) else {}
        axis = d.integer(-len(shape), len(shape) - 1)
        return {"x": d.laid_out(x), "axis": axis, **_settings(d, family, stored=False), **out}

    return draw


def _wide(x: Any) -> Any:
    return x if x.dtype == np.float32 else getattr(reference, f"cast_{qtype(x.dtype).code}_f32")(x)


def expected_fake(family: str) -> Callable[..., Any]:
    def expected(x: Any, axis: int = -1, **settings: Any) -> Any:
        given = blocks.split_blocks(_wide(x), axis, settings.get("block_size", _DEFAULT_BLOCK[family]))
        told = {name: value for name, value in settings.items() if name not in _OF_ARRAYS}
        y = blocks.join_blocks(getattr(blocks, f"fake_quantize_{family}")(given, **told), x.shape, axis)
        return y if x.dtype == np.float32 else getattr(reference, f"cast_f32_{qtype(x.dtype).code}")(y)

    return expected


def draw_quantize(family: str) -> Callable[[Draw], dict[str, Any]]:
    def draw(d: Draw) -> dict[str, Any]:
        shape = tuple(max(n, 1) for n in _shape(d))
        axis = d.integer(-len(shape), len(shape) - 1)
        return {"x": d.laid_out(d.floats(shape)), "axis": axis, **_settings(d, family, stored=True)}

    return draw


def expected_quantize(family: str) -> Callable[..., Any]:
    def expected(x: Any, axis: int = -1, **settings: Any) -> Any:
        size = settings.get("block_size", _DEFAULT_BLOCK[family])
        told = {name: value for name, value in settings.items() if name not in _OF_ARRAYS}
        records = getattr(blocks, f"quantize_{family}")(blocks.split_blocks(_wide(x), axis, size), **told)
        others = [n for i, n in enumerate(x.shape) if i != axis % x.ndim]
        return records.reshape(*others, -(-x.shape[axis] // size), records.shape[1])

    return expected


def draw_dequantize(family: str) -> Callable[[Draw], dict[str, Any]]:
    def draw(d: Draw) -> dict[str, Any]:
        shape = tuple(max(n, 1) for n in _shape(d))
        axis = d.integer(-len(shape), len(shape) - 1)
        settings = _settings(d, family, stored=True, rounds=False)
        records = getattr(quarkfast, f"quantize_{family}")(d.floats(shape), axis=axis, **settings)
        return {"records": d.laid_out(records), "length": shape[axis], "axis": axis, **settings}

    return draw


def expected_dequantize(family: str) -> Callable[..., Any]:
    def expected(records: Any, length: int, axis: int = -1, **settings: Any) -> Any:
        records = np.asarray(records)
        told = {name: value for name, value in settings.items() if name != "out"}
        values = getattr(blocks, f"dequantize_{family}")(records.reshape(-1, records.shape[-1]), **told)
        others = list(records.shape[:-2])
        others.insert(axis % (len(others) + 1), length)
        return blocks.join_blocks(values, tuple(others), axis)

    return expected


CALLS = {
    "fake_quantize": (draw_fake, expected_fake),
    "quantize": (draw_quantize, expected_quantize),
    "dequantize": (draw_dequantize, expected_dequantize),
}
