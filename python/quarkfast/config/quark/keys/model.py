"""Keys of a model and its device: preparation, what the CNNs of the NPU need, and how Quark itself runs."""

from __future__ import annotations

from quarkfast.config.options.kinds import NAME, NAMES
from quarkfast.config.quark.keys.row import BOTH, Key

__all__ = ["NPU", "PREPARATION", "RUNNING"]

_ANYWAY = "identities are dropped and constants are computed in any case"

_FOLDS = "both False: option `fold_batch_norm`, unless FoldBatchNorm says so; one alone folds in Quark too"

_ALONE = "no file is written but the result"

_PATTERNS = "a function that is written in several operators stays so"


def _conversion(name: str, constraint: str) -> Key:
    why = f"rule `{constraint}`: operators become others, which the NPU has"
    return Key(name, why, families={"cnn": (True,)}, honoured="True, False", constraint=constraint)


PREPARATION = (
    Key("OptimizeModel", _FOLDS, default=(True,), honoured="False"),
    Key("SimplifyModel", _FOLDS, default=(True,), honoured="False"),
    Key("SimplifyModelOptions", "there is no onnxslim to pass them to", default=({}, None)),
    Key("SkipPreprocess", _ANYWAY, default=(False,)),
    Key("ShapeShifterYaml", "there are no declarative passes", default=(None,)),
    Key("PreprocessYAML", "Quark 0.12 dropped this name; leave it out", default=(None,), dead=True),
    Key(
        "ConvertFP16ToFP32",
        "inputs and outputs in float16 become float32 too, as by `quarkfast convert float32`",
        default=(False,),
        honoured="True",
    ),
    Key(
        "ConvertNCHWToNHWC",
        "the result takes and gives NHWC, as by `quarkfast convert channels-last`; samples stay NCHW",
        default=(False,),
        honoured="True",
    ),
    Key("ConvertOpsetVersion", "option `opset`", default=(None,), honoured="an integer greater than 0"),
    _conversion("ConvertBNToConv", "batch_norm_to_conv"),
    _conversion("ConvertReduceMeanToGlobalAvgPool", "reduce_mean_to_pool"),
    _conversion("SplitLargeKernelPool", "split_large_pools"),
    _conversion("ConvertSplitToSlice", "split_to_slice"),
    Key(
        "ConvertClipToRelu",
        "rule `clip_to_relu`: a Clip from zero is a Relu, where the largest code is the upper bound",
        default=(False,),
        honoured="True",
        constraint="clip_to_relu",
    ),
    Key("FixShapes", "option `shapes`", default=(None,), honoured="text such as x:[1,3,224,224];y:[1,10]"),
    Key(
        "CopySharedInit",
        "option `unshare_constants`; an empty list means all operator types",
        default=(None,),
        honoured="a list of operator types",
    ),
    Key(
        "CopyBiasInit",
        "a bias that layers share is quantized for each of them",
        default=(["Conv", "ConvTranspose", "Gemm"], None),
    ),
    Key("FuseInstanceNorm", _PATTERNS, default=(True,), already=BOTH),
    Key("FuseL2Norm", _PATTERNS, default=(True,), already=BOTH),
    Key("FuseGelu", _PATTERNS, default=(True,), already=BOTH),
    Key("FuseLayerNorm", _PATTERNS, default=(True,), already=BOTH),
    Key(
        "FoldRelu",
        "no pair stands between a layer and its Relu, which then changes no code where the zero point is the lowest",
        default=(False,),
        already=BOTH,
    ),
    Key(
        "ReplaceClip6Relu",
        "rule `clip_to_relu`; equalization may pass a Clip (`through_clip`)",
        default=(False,),
        honoured="True",
        constraint="clip_to_relu",
    ),
    Key("RemoveInputInit", "constants are no inputs of the result", default=(True,), noted=(False,)),
)


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


NPU = (
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


_QUIET = "nothing is printed"

RUNNING = (
    Key("PrintSummary", _QUIET, already=BOTH),
    Key("IgnoreWarnings", "warnings are Python's, for its own filters", already=BOTH),
    Key("DebugMode", "a plan and a report say what was done", default=(False,), noted=(True,)),
    Key("ExecutionProviders", "calibration runs on the CPU", default=(["CPUExecutionProvider"],), noted=NAMES),
    Key("TmpDir", _ALONE, default=(None,), already=NAME),
    Key("UserCustomOpLibPath", "sessions register quarkfast's library alone", default=(None,)),
    Key("CryptoMode", _ALONE, already=BOTH),
    Key("EncryptionAlgorithm", _ALONE, default=(None,), already=NAME),
    Key("EvalMetrics", "use `quarkfast evaluate`", default=(False, None), noted=(True,)),
    Key("EvalDataReader", "use `quarkfast evaluate`", default=(None,)),
    Key("FillAllValueInfo", "types and shapes are written as far as onnx infers them", default=(False,)),
)
