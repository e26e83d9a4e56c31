"""Calibration: what samples say about the ranges of activations."""

from quarkfast.calibration.gather import Job, calibrate_prepared, fit_rows
from quarkfast.calibration.images import PREPROCESSES
from quarkfast.calibration.inputs import Feed, ModelInput, model_inputs
from quarkfast.calibration.memory import live_bytes, parse_bytes, readable
from quarkfast.calibration.observe import Gather, Observer, observe
from quarkfast.calibration.random_data import RandomDataReader, random_feeds
from quarkfast.calibration.reaches import channel_reaches
from quarkfast.calibration.readers import CalibrationData, DataReader, open_data, read_feeds
from quarkfast.calibration.result import Calibration, merge
from quarkfast.calibration.samples import Samples
from quarkfast.calibration.statistics import TensorStatistics, merge_statistics

__all__ = [
    "PREPROCESSES",
    "Calibration",
    "CalibrationData",
    "DataReader",
    "Feed",
    "Gather",
    "Job",
    "ModelInput",
    "Observer",
    "RandomDataReader",
    "Samples",
    "TensorStatistics",
    "calibrate_prepared",
    "channel_reaches",
    "fit_rows",
    "live_bytes",
    "merge",
    "merge_statistics",
    "model_inputs",
    "observe",
    "open_data",
    "parse_bytes",
    "random_feeds",
    "read_feeds",
    "readable",
]
