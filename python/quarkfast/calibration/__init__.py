"""Calibration: a model is run on samples, and what its activations are is gathered within the graph."""

from quarkfast.calibration.memory import live_bytes, parse_bytes, readable
from quarkfast.calibration.runner import CalibrationRun, calibrate_prepared, fit_rows
from quarkfast.calibration.session import Observer, observe

__all__ = [
    "CalibrationRun",
    "Observer",
    "calibrate_prepared",
    "fit_rows",
    "live_bytes",
    "observe",
    "parse_bytes",
    "readable",
]
