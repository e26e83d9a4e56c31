"""Gathers what the page about a quantization shows (`quarkfast.report`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import onnx

from quarkfast._version import version
from quarkfast.graph.byte_counts import count_bytes
from quarkfast.quantization import Records
from quarkfast.report import Content
from quarkfast.targets import TARGETS

if TYPE_CHECKING:
    from quarkfast.evaluate.tensor_comparison import Comparison
    from quarkfast.pipeline.summary import Summary

__all__ = ["report_content"]

# Titles of what the metadata of the model says about its making.
_MADE = {"versions of packages": "quarkfast.versions", "the scheme, for --config": "quarkfast.scheme"}


def report_content(
    model_bytes: bytes, summary: Summary, more: Mapping[str, Any], compared: Comparison | None = None
) -> Content:
    """Returns the content of the page.

    Args:
        model_bytes: The quantized model, without the data of a second file.
        summary: What was done.
        more: What the JSON report holds beside the summary: ``model``, ``output``, ``total_seconds``,
            ``verification``, ``latency``.
        compared: Tensors beside their float originals.
    """
    proto = onnx.ModelProto()
    proto.ParseFromString(model_bytes)
    # A model that was copied as it is has whatever its author wrote there.
    props = {each.key: each.value for each in proto.metadata_props} if summary.quantized else {}
    target = TARGETS.get(summary.target)
    return Content(
        document={**summary.to_dict(), **more},
        facts=summary.rows(),
        records=summary.records or Records(),
        sizes=count_bytes(proto, summary.bytes_after),
        compared=() if compared is None else compared.tensors,
        samples=0 if compared is None else compared.samples,
        not_compared=() if compared is None else compared.not_compared,
        device="" if target is None or target.cpu_kernels else target.name,
        version=version(),
        made={title: _indented(props[key]) for title, key in _MADE.items() if key in props},
    )


def _indented(text: str) -> str:
    return json.dumps(json.loads(text), indent=2)
