"""Processors differ: whether 8-bit sums saturate in this process, and runs by which models are judged on all alike."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.evaluate.exact_sums import exact_session

# Two products of 255 and 127 are more than 16 bits hold, so a kernel of VPMADDUBSW returns 32767 for each pair.
DEPTH = 64
EXACT_SUM, SATURATED_SUM = DEPTH * 255 * 127, DEPTH // 2 * 32767


@functools.cache
def sum_of_products() -> int:
    """Return the sum of DEPTH products of 255 (uint8) and 127 (int8), as a default session computes it."""
    text = """<ir_version: 8, opset_import: ["" : 13]> g (uint8[N, K] x, int8[K, M] w) => (int32[N, M] y) {
        y = MatMulInteger(x, w)
    }"""
    session = onnxruntime.InferenceSession(
        onnx.parser.parse_model(text).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feed = {"x": np.full((4, DEPTH), 255, np.uint8), "w": np.full((DEPTH, 16), 127, np.int8)}
    found = np.unique(session.run(None, feed)[0])
    assert len(found) == 1
    return int(found[0])


def saturates() -> bool:
    """Return whether pairs of uint8 x int8 products saturate here, as on x86 processors without VNNI."""
    return sum_of_products() != EXACT_SUM


def run_exact(
    model: bytes | onnx.ModelProto, feed: Mapping[str, NDArray[Any]], names: Sequence[str] | None = None
) -> list[NDArray[Any]]:
    """Return a small model's outputs with exact sums, by which it is judged; a default session must run it as well."""
    found = exact_session(model).run(names, feed)
    data = model if isinstance(model, bytes) else model.SerializeToString()
    default = ort.inference_session(data).run(names, feed)
    assert [(each.shape, each.dtype) for each in default] == [(each.shape, each.dtype) for each in found]
    return list(found)
