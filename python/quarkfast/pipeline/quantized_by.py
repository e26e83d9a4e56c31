"""Which tool quantized a model: by the name it left in the file, or by how it names nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from quarkfast.deferred import ir
from quarkfast.graph.operators import QUANTIZERS

__all__ = ["quantized_by"]

_PRODUCERS = {
    "quarkfast": "quarkfast",
    "quark.onnx": "AMD Quark",
    "onnx.quantize": "onnxruntime.quantization",
}
# NNCF 3.4 and onnxsim 0.8 leave the producer as it was. Seen in their models of ResNet-20.
_NAMES = {
    "NNCF": re.compile(r"QuantizeLinear_.+_\d+"),
    "onnxsim": re.compile(r".+/Q"),
    "onnxruntime.quantization": re.compile(r".+_QuantizeLinear"),
}


def quantized_by(model: ir.Model, nodes: Iterable[ir.Node]) -> str | None:
    """Returns the tool that quantized `model`, and how that is known; None where it is not."""
    if model.producer_name in _PRODUCERS:
        return f"{_PRODUCERS[model.producer_name]} {model.producer_version or ''}".rstrip()
    names = [node.name or "" for node in nodes if node.op_type in QUANTIZERS]
    for tool, pattern in _NAMES.items():
        if names and all(pattern.fullmatch(name) for name in names):
            return f"{tool}, to judge by the names of its nodes"
    return None
