"""Keys of what is done to a model before it is quantized."""

from __future__ import annotations

from quarkfast.config.quark.keys.row import BOTH, Key

__all__ = ["ROWS"]

_ANYWAY = "identities are dropped and constants are computed in any case"

_FOLDS = "both False: option `fold_batch_norm`, unless FoldBatchNorm says so; one alone folds in Quark too"

_PATTERNS = "a function that is written in several operators stays so"


def _conversion(name: str, constraint: str) -> Key:
    why = f"rule `{constraint}`: operators become others, which the NPU has"
    return Key(name, why, families={"cnn": (True,)}, honoured="True, False", constraint=constraint)


ROWS = (
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
    Key("RemoveInputInit", "constants are no inputs of the result", default=(True,)),
)
