"""Processors differ: whether 8-bit sums saturate in this process, and runs by which models are judged on all alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.processor import saturates

__all__ = ["run_exact", "saturates"]


def run_exact(
    model: bytes | onnx.ModelProto, feed: Mapping[str, NDArray[Any]], names: Sequence[str] | None = None
) -> list[NDArray[Any]]:
    """Return a small model's outputs with exact sums, by which it is judged; a default session must run it as well."""
    found = exact_session(model).run(names, feed)
    data = model if isinstance(model, bytes) else model.SerializeToString()
    default = ort.inference_session(data).run(names, feed)
    assert [(each.shape, each.dtype) for each in default] == [(each.shape, each.dtype) for each in found]
    return list(found)
