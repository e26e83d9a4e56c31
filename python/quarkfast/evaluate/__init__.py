"""Metrics: what a quantization cost."""

from quarkfast.evaluate.metrics import agreement, cosine, spearman, sqnr, top1

__all__ = ["agreement", "cosine", "spearman", "sqnr", "top1"]
