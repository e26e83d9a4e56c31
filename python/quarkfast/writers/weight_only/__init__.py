"""Weights alone in a narrower type, tensor by tensor: codes with scales, MatMulNBits, or 16-bit floats."""

from quarkfast.writers.weight_only.rewrite import lowest_opset, rewrite

__all__ = ["lowest_opset", "rewrite"]
