"""Keys of calibration."""

from __future__ import annotations

from quarkfast.config.options.kinds import COUNT
from quarkfast.config.quark.keys.row import BOTH, Key

__all__ = ["ROWS"]

_DEAD = "it has no effect in Quark either; leave it out"
_MEMORY = "activations are never written to files, nor kept"

ROWS = (
    Key("CalibMovingAverageConstant", _DEAD, default=(0.01,), dead=True),
    Key("MinimumRealRange", _DEAD, default=(None,), dead=True),
    Key("LWPUseHistogram", "percentiles are read from histograms", default=(True,)),
    Key("MinMSEModePof2Scale", "`minmse` searches over all values", default=("All",)),
    Key("CalibOptimizeMem", _MEMORY, already=BOTH),
    Key("CalibWorkerNum", "all processors calibrate, with the same result", already=COUNT),
    Key("CalibPassthroughOpTypes", "what only moves values has the range of its input anyway", default=([],)),
    Key(
        "UseRandomData",
        "one random sample, where there is neither a reader nor a path",
        default=(False,),
        honoured="True",
    ),
    Key("RandomDataReaderInputShape", "sizes of the random sample", default=({},), honoured="lists by input"),
    Key(
        "RandomDataReaderInputDataRange", "range of the random sample", default=(None,), honoured="[low, high] by input"
    ),
    Key(
        "SaveAndRestore",
        "a file of statistics, read in place of samples where it exists, else written; Quark's are read too",
        default=(None,),
        honoured="a path",
    ),
    Key(
        "TensorsRangeFile",
        "Quark 0.12 dropped this name; give a saved calibration (calibration=) instead",
        default=(None,),
        dead=True,
    ),
    Key("SaveTensorHistFig", "`--report` shows the histograms", default=(False,)),
    Key(
        "QuantizationPreference",
        "give the settings of FastFinetune that it stands for; all else in it is how Quark itself runs",
        default=(None,),
        already=("resource_efficiency",),
    ),
)
