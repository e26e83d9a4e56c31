"""Weights alone in a narrower type, tensor by tensor: codes with scales, MatMulNBits, or 16-bit floats."""

from quarkfast.writers.weight_only.opset import lowest_opset
from quarkfast.writers.weight_only.place import StoredWeight, WeightPlacement, place_weights
from quarkfast.writers.weight_only.rewrite import rewrite

__all__ = ["StoredWeight", "WeightPlacement", "lowest_opset", "place_weights", "rewrite"]
