"""Keys of what the NPU's CNNs need: simulation of the DPU, and limits on power-of-two scales."""

from __future__ import annotations

from quarkfast.config.quark.keys.row import BOTH, Key

__all__ = ["ROWS"]

_SIMULATED = "functions are computed as the model has them"
_LIMIT = "a limit of the accelerator's shifts, which float scales do not have"
_MOVED = "what only moves values has the scale of its input"


def _simulation(name: str, on: bool) -> Key:
    """Returns the row of a conversion, which Quark does for the NPU's CNNs by default if it is `on`."""
    return Key(name, _SIMULATED, default=(False,), families={"cnn": BOTH} if on else {})


def _limit(name: str, constraint: str) -> Key:
    why = f"constraint `{constraint}`: {_LIMIT}"
    return Key(name, why, already=BOTH, families={"cnn": (True,)}, honoured="False", constraint=constraint)


def _alignment(name: str, constraint: str) -> Key:
    return Key(
        name,
        f"constraint `{constraint}`",
        default=(False,),
        families={"cnn": (True,), "transformer": BOTH, "dynamic": BOTH, "block": BOTH},
        honoured="True, False",
        constraint=constraint,
    )


ROWS = (
    _simulation("SimulateDPU", on=True),
    _simulation("ConvertLeakyReluToDPUVersion", on=True),
    _simulation("ConvertSigmoidToHardSigmoid", on=True),
    _simulation("ConvertHardSigmoidToDPUVersion", on=True),
    _simulation("ConvertAvgPoolToDPUVersion", on=True),
    _simulation("ConvertReduceMeanToDPUVersion", on=True),
    _simulation("ConvertSoftmaxToDPUVersion", on=False),
    _simulation("ConvertInstanceNormToDPUVersion", on=False),
    _simulation("ConvertClipToDPUVersion", on=False),
    Key(
        "NPULimitationCheck",
        "all of the constraints below at once",
        already=BOTH,
        families={"cnn": (True,)},
        honoured="False",
    ),
    Key("MaxLoopNum", "the rules are applied 5 times at most", default=(5,)),
    _limit("AdjustShiftCut", "shift_cut"),
    _limit("AdjustShiftBias", "shift_bias"),
    _limit("AdjustShiftRead", "shift_read"),
    _limit("AdjustShiftWrite", "shift_write"),
    _limit("AdjustHardSigmoid", "hard_sigmoid"),
    _limit("AdjustShiftSwish", "shift_swish"),
    Key(
        "AdjustBiasScale",
        "a bias in int32 always has the scale of the products that it is added to",
        default=(True,),
        families={"cnn": BOTH},
    ),
    _alignment("AlignConcat", "concat"),
    _alignment("AlignPool", "pool"),
    Key("AlignPad", _MOVED, default=(False,), already=(True,), families={"cnn": (True,)}),
    Key("AlignSlice", _MOVED, default=(False,), already=(True,), families={"cnn": (True,)}),
    Key("AlignTranspose", _MOVED, default=(False,), already=BOTH),
    Key("AlignReshape", _MOVED, default=(False,), already=BOTH),
)
