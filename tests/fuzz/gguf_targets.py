"""Blocks of GGUF as fuzz targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import quarkfast
from quarkfast import reference
from quarkfast.kernels.gguf import GGUF_TYPES

from .draw import Draw


def _draw_quantize(d: Draw) -> dict[str, Any]:
    name = d.pick(tuple(GGUF_TYPES))
    values, record = GGUF_TYPES[name]
    others, blocks = tuple(min(n, 9) for n in d.shape()), d.integer(0, 5)
    x = d.laid_out(d.floats((*others, blocks * values)))
    out = {"out": d.output((*others, blocks * record), np.uint8)} if d.chance(0.4) else {}
    return {"x": x, "type": name, **out}


def _quantized(x: Any, type: str, out: Any = None) -> Any:
    values, record = GGUF_TYPES[type]
    records = reference.quantize_gguf(np.asarray(x).reshape(-1, values), type)
    return records.reshape(*x.shape[:-1], x.shape[-1] // values * record)


def _draw_dequantize(d: Draw) -> dict[str, Any]:
    name = d.pick(tuple(GGUF_TYPES))
    values, record = GGUF_TYPES[name]
    others, blocks = tuple(min(n, 9) for n in d.shape()), d.integer(0, 5)
    records = d.laid_out(d.rng.integers(0, 256, (*others, blocks * record), dtype=np.uint8))
    out = {"out": d.output((*others, blocks * values), np.float32)} if d.chance(0.4) else {}
    return {"records": records, "type": name, **out}


def _dequantized(records: Any, type: str, out: Any = None) -> Any:
    values, record = GGUF_TYPES[type]
    y = reference.dequantize_gguf(np.ascontiguousarray(records).reshape(-1, record), type)
    return y.reshape(*records.shape[:-1], records.shape[-1] // record * values)


CALLS: dict[str, tuple[Callable[..., Any], Callable[[Draw], dict[str, Any]], Callable[..., Any]]] = {
    "quantize_gguf": (quarkfast.quantize_gguf, _draw_quantize, _quantized),
    "dequantize_gguf": (quarkfast.dequantize_gguf, _draw_dequantize, _dequantized),
}
