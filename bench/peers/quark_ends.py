"""Quantize MODEL with AMD Quark, with a key of its own: ``quark_ends.py MODEL OUT PRESET KEY SAMPLES.npz VALUE``.

Run with the Python of an environment that has Quark.
"""

from __future__ import annotations

import sys

import numpy as np
from quark.onnx import ModelQuantizer
from quark.onnx.quantization.config import Config, get_default_config

model, out, preset, key, data, value = sys.argv[1:7]
((name, array),) = np.load(data).items()
samples = iter([{name: each[None]} for each in array])


class Reader:
    """What Quark asks for samples."""

    def get_next(self) -> object:
        """Returns a sample, or None."""
        return next(samples, None)


config = get_default_config(preset)
config.extra_options[key] = value == "True"
ModelQuantizer(Config(global_quant_config=config)).quantize_model(model, out, Reader())
