"""Weights in narrower types while activations stay float: which, along which axis, and their codes as lazy streams."""

from quarkfast.quantization.weight_only.casts import WIDE, widened
from quarkfast.quantization.weight_only.coded import CodedWeight
from quarkfast.quantization.weight_only.place import StoredWeight, WeightPlacement, place_weights
from quarkfast.quantization.weight_only.plan import StreamedWeight, WeightPlan, plan_weights
from quarkfast.quantization.weight_only.uses import Reader

__all__ = [
    "WIDE",
    "CodedWeight",
    "Reader",
    "StoredWeight",
    "StreamedWeight",
    "WeightPlacement",
    "WeightPlan",
    "place_weights",
    "plan_weights",
    "widened",
]
