"""Calibration: a model is run on samples, and what its activations are is gathered within the graph."""

from quarkfast.calibration.channel_absmax import channel_reaches
from quarkfast.calibration.memory import live_bytes, parse_bytes, readable
from quarkfast.calibration.runner import Job, calibrate_prepared, fit_rows
from quarkfast.calibration.session import Gather, Observer, observe

__all__ = [
    "Gather",
    "Job",
    "Observer",
    "calibrate_prepared",
    "channel_reaches",
    "fit_rows",
    "live_bytes",
    "observe",
    "parse_bytes",
    "readable",
]
