"""Calibration: what samples say about the ranges of activations."""

from quarkfast.calibrate.inputs import Feed, ModelInput, model_inputs
from quarkfast.calibrate.observe import observe
from quarkfast.calibrate.readers import CalibrationData, DataReader, count_samples, read_feeds

__all__ = [
    "CalibrationData",
    "DataReader",
    "Feed",
    "ModelInput",
    "count_samples",
    "model_inputs",
    "observe",
    "read_feeds",
]
