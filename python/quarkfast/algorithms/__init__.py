"""Accuracy algorithms, one a file: what changes weights, scales or codes so that quantization costs less."""

from quarkfast.algorithms.channel_smoothing import smooth, smoothable_axes
from quarkfast.algorithms.cross_layer_equalization import equalize

__all__ = ["equalize", "smooth", "smoothable_axes"]
