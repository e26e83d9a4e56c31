"""Accuracy algorithms, one a file: what changes weights, scales or codes so that quantization costs less."""

from __future__ import annotations

from quarkfast.algorithms.algorithm import Algorithm
from quarkfast.algorithms.bias_correction import BIAS_CORRECTION
from quarkfast.algorithms.channel_rewriting import smoothable_axes
from quarkfast.algorithms.channel_smoothing import CHANNEL_SMOOTHING
from quarkfast.algorithms.cross_layer_equalization import CROSS_LAYER_EQUALIZATION
from quarkfast.algorithms.hadamard_rotation import HADAMARD_ROTATION
from quarkfast.algorithms.outlier_channel_splitting import OUTLIER_CHANNEL_SPLITTING
from quarkfast.algorithms.output_bias_correction import OUTPUT_BIAS_CORRECTION
from quarkfast.algorithms.range_method import RANGE_METHOD
from quarkfast.algorithms.range_search import RANGE_SEARCH
from quarkfast.algorithms.scale_alignment import SCALE_ALIGNMENT
from quarkfast.algorithms.weight_rounding_row import WEIGHT_ROUNDING

__all__ = ["ALGORITHMS", "Algorithm", "smoothable_axes"]

ALGORITHMS: tuple[Algorithm, ...] = (
    HADAMARD_ROTATION,
    CROSS_LAYER_EQUALIZATION,
    OUTLIER_CHANNEL_SPLITTING,
    CHANNEL_SMOOTHING,
    SCALE_ALIGNMENT,
    RANGE_METHOD,
    RANGE_SEARCH,
    BIAS_CORRECTION,
    OUTPUT_BIAS_CORRECTION,
    WEIGHT_ROUNDING,
)
"""The algorithms in the order in which they run. Samples decide which of smoothing and splitting does anything."""
