"""Statistics of activations: ranges, histograms and channel maxima, merged exactly, in memory and in files."""

from quarkfast.statistics.calibration import Calibration, merge, open_calibration
from quarkfast.statistics.request import StatisticsRequest, TensorRequest
from quarkfast.statistics.tensor import TensorStatistics, merge_statistics

__all__ = [
    "Calibration",
    "StatisticsRequest",
    "TensorRequest",
    "TensorStatistics",
    "merge",
    "merge_statistics",
    "open_calibration",
]
