"""Residual sums in a form that onnxruntime leaves apart from the normalizations behind them."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard
from quarkfast.graph.normalization import find_normalization

__all__ = ["keep_sums"]


def keep_sums(model: ir.Model) -> None:
    """Makes each Add that a layer normalization reads a Sum, in place, which computes the same bits.

    onnxruntime fuses the two into a SkipLayerNormalization if the first is an Add. That of 1.31 adds up each row number
    by number: 5.6 ms for ``[32, 64, 384]`` with one thread, where a Sum and a LayerNormalization take 1.8 ms; that of
    1.22 and 1.25 takes 1.4 ms beside 1.9. MiniLM in U8S8 takes 16 % less time so, in DYNAMIC 14 %.
    """
    for node in model.graph:
        for found in map(find_normalization, node.outputs):
            source = None if found is None or found.source is None else found.source.producer()
            if source is not None and is_standard(source) and source.op_type == "Add":
                source.op_type = "Sum"
