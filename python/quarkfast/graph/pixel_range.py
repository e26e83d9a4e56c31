"""Whether an input takes pixels from 0 to 255, as the model says or as its first convolution shows."""

from __future__ import annotations

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, name_of
from quarkfast.graph.operators import TYPE_KEEPERS

__all__ = ["why_bytes"]

# What a convolution gives, beside the norm of its weights: networks trained on numbers up to 1, or normalized, have
# 0.2 to 1.3 (seven of them), those trained on 0 to 255 about 255 times as much (a YOLOX 38). In the middle of both.
_RATIO = 8.0


def why_bytes(model: ir.Model, value: ir.Value) -> str:
    """Returns why an input takes numbers from 0 to 255, or nothing where it does not, or nobody can tell.

    The weights of a first convolution are small where pixels are large, since what it gives is as large as elsewhere:
    as the BatchNormalization behind it says, or about 1 where that is folded.
    """
    declared = model.metadata_props.get("Image.NominalPixelRange", "")
    if declared:
        return f"its metadata {declared}" if declared.endswith("0_255") else ""
    if value.dtype == ir.DataType.UINT8:
        return "its type uint8"
    for _ in range(16):
        readers = [node for node, _ in value.uses()]
        if not readers:
            return ""
        if all(node.op_type == "Conv" for node in readers):
            return _of_convolution(readers[0])
        if any(node.op_type not in TYPE_KEEPERS for node in readers):
            return ""
        value = readers[0].outputs[0]
    return ""


def _of_convolution(node: ir.Node) -> str:
    weight = node.inputs[1]
    if weight is None or not is_constant(weight):
        return ""
    array = np.asarray(array_of(weight), np.float64)
    norm = float(np.median(np.sqrt(np.square(array.reshape(len(array), -1)).sum(axis=1)))) if array.size else 0.0
    behind = [reader for reader, _ in node.outputs[0].uses()]
    given = 1.0
    if behind and behind[0].op_type == "BatchNormalization" and (variance := behind[0].inputs[4]) is not None:
        if not is_constant(variance):
            return ""
        given = float(np.median(np.sqrt(np.abs(np.asarray(array_of(variance), np.float64)))))
    return f"the small weights of its first convolution {name_of(node)!r}" if norm and given > _RATIO * norm else ""
