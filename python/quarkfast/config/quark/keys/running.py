"""Keys of how Quark itself runs: what it prints, where it writes, what it runs on."""

from __future__ import annotations

from quarkfast.config.quark.keys.row import BOTH, Key

__all__ = ["ROWS"]

_QUIET = "nothing is printed"

ROWS = (
    Key("PrintSummary", _QUIET, already=BOTH),
    Key("IgnoreWarnings", "warnings are Python's, for its own filters", already=BOTH),
    Key("DebugMode", "a plan and a report say what was done", default=(False,)),
    Key("ExecutionProviders", "calibration runs on the CPU", default=(["CPUExecutionProvider"],)),
    Key("TmpDir", "there are no temporary files to place", default=(None,)),
    Key("UserCustomOpLibPath", "sessions register quarkfast's library alone", default=(None,)),
    Key("CryptoMode", "models are written as they are", default=(False,)),
    Key("EncryptionAlgorithm", "models are written as they are", default=(None,)),
    Key("EvalMetrics", "use `quarkfast evaluate`", default=(False, None)),
    Key("EvalDataReader", "use `quarkfast evaluate`", default=(None,)),
    Key("FillAllValueInfo", "types and shapes are written as far as onnx infers them", default=(False,)),
)
