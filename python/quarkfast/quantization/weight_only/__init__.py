"""Weights in narrower types while activations stay float: which, along which axis, and their codes as lazy streams."""

from quarkfast.quantization.weight_only.layout import cast_values
from quarkfast.quantization.weight_only.place import StoredWeight, WeightPlacement, place_weights
from quarkfast.quantization.weight_only.plan import CodedWeight, StreamedWeight, WeightPlan, plan_weights
from quarkfast.quantization.weight_only.uses import Reader, reads_table

__all__ = [
    "CodedWeight",
    "Reader",
    "StoredWeight",
    "StreamedWeight",
    "WeightPlacement",
    "WeightPlan",
    "cast_values",
    "place_weights",
    "plan_weights",
    "reads_table",
]
