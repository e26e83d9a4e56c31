"""Calibration: what samples say about the ranges of activations."""

from quarkfast.calibration.inputs import Feed, ModelInput, model_inputs
from quarkfast.calibration.observe import observe
from quarkfast.calibration.readers import CalibrationData, DataReader, count_samples, open_file, read_feeds

__all__ = [
    "CalibrationData",
    "DataReader",
    "Feed",
    "ModelInput",
    "count_samples",
    "model_inputs",
    "observe",
    "open_file",
    "read_feeds",
]
