"""Calibration: what samples say about the ranges of activations."""

from quarkfast.calibration.images import PREPROCESSES
from quarkfast.calibration.inputs import Feed, ModelInput, model_inputs
from quarkfast.calibration.observe import observe
from quarkfast.calibration.random_data import RandomDataReader, random_feeds
from quarkfast.calibration.readers import CalibrationData, DataReader, open_data, read_feeds
from quarkfast.calibration.samples import Samples

__all__ = [
    "PREPROCESSES",
    "CalibrationData",
    "DataReader",
    "Feed",
    "ModelInput",
    "RandomDataReader",
    "Samples",
    "model_inputs",
    "observe",
    "open_data",
    "random_feeds",
    "read_feeds",
]
