"""Keys of what the NPU's CNNs need: simulation of the DPU, and limits on power-of-two scales."""

from __future__ import annotations

from quarkfast.config.quark.keys.row import BOTH, Key

__all__ = ["ROWS"]

_BFLOAT16 = "onnxruntime has no operators in bfloat16 for processors to compute it with"
_LIMIT = "a limit of the accelerator's shifts, which float scales do not have"
_MOVED = "what only moves values has the scale of its input"


def _simulation(name: str, constraint: str, on: bool = False) -> Key:
    """Returns the row of what the DPU computes otherwise than ONNX, which is done for the NPU's CNNs if it is `on`."""
    why = f"rule `{constraint}`: the result computes as the accelerator does"
    return Key(
        name,
        why,
        default=(False,),
        families={"cnn": (True,)} if on else {},
        honoured="True, False",
        constraint=constraint,
    )


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
    Key(
        "SimulateDPU",
        "all rules `dpu_*` at once",
        already=BOTH,
        families={"cnn": (True,)},
        honoured="False",
    ),
    _simulation("ConvertLeakyReluToDPUVersion", "dpu_leaky_relu", on=True),
    _simulation("ConvertSigmoidToHardSigmoid", "dpu_sigmoid"),
    _simulation("ConvertHardSigmoidToDPUVersion", "dpu_hard_sigmoid", on=True),
    _simulation("ConvertAvgPoolToDPUVersion", "dpu_average_pool", on=True),
    _simulation("ConvertReduceMeanToDPUVersion", "dpu_reduce_mean", on=True),
    Key("ConvertSoftmaxToDPUVersion", _BFLOAT16, default=(False,)),
    _simulation("ConvertInstanceNormToDPUVersion", "dpu_instance_norm"),
    _simulation("ConvertClipToDPUVersion", "dpu_clip"),
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
