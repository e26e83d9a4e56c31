"""Coordinate descent as a fuzz target: codes of any type, Gram matrices good and bad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from quarkfast import kernels, reference
from quarkfast.formats.scalar import qtype

from .draw import Draw


def _draw_descent(d: Draw) -> dict[str, Any]:
    row = qtype(d.pick(("int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32")))
    rows, n = d.integer(0, 6), d.integer(0, d.pick((5, 80)))
    low, high = sorted(d.codes(np.int64, int(row.qmin), int(row.qmax), (2,)).tolist())
    arguments: dict[str, Any] = {"qmin": low, "qmax": high, "reach": d.integer(0, 20), "passes": d.integer(0, 5)}
    x = d.rng.standard_normal((n + 3, n)) * d.pick((1e-3, 1.0, 1e3))
    gram = x.T @ x if d.chance(0.7) else d.rng.standard_normal((n, n))
    largest = d.pick((0.3, 3.0, 1e9))
    return arguments | {
        "codes": d.laid_out(d.codes(row.dtype, low, high, (rows, n))),
        "scale": d.scales((rows,)).astype(np.float64),
        "gram": d.laid_out(gram),
        "residual": d.laid_out(d.rng.standard_normal((rows, n)) * largest),
    }


def _found(**arguments: Any) -> Any:
    codes = kernels.descend_codes(**arguments)
    return codes.dtype, codes.tobytes()


def _descended(codes: Any, scale: Any, gram: Any, residual: Any, qmin: Any, qmax: Any, reach: Any, passes: Any) -> Any:
    arrays = (np.asarray(each) for each in (codes, scale, gram, residual))
    moved = reference.descend_codes(*arrays, int(qmin), int(qmax), int(reach), int(passes))
    return moved.dtype, moved.tobytes()


#: Name: function, how to draw a right call, what it should answer.
CALLS: dict[str, tuple[Callable[..., Any], Callable[[Draw], dict[str, Any]], Callable[..., Any]]] = {
    "descend_codes": (_found, _draw_descent, _descended),
}
