"""Calibration data: arrays, files, folders, images, readers and random numbers as samples of a model's inputs."""

from quarkfast.calibration.data.images import PREPROCESSES
from quarkfast.calibration.data.inputs import Feed, ModelInput, model_inputs
from quarkfast.calibration.data.random_data import RandomDataReader, random_feeds
from quarkfast.calibration.data.readers import CalibrationData, DataReader, open_data, read_feeds
from quarkfast.calibration.data.samples import Samples, Spool

__all__ = [
    "PREPROCESSES",
    "CalibrationData",
    "DataReader",
    "Feed",
    "ModelInput",
    "RandomDataReader",
    "Samples",
    "Spool",
    "model_inputs",
    "open_data",
    "random_feeds",
    "read_feeds",
]
