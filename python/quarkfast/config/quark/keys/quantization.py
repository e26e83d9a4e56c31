"""Keys of a quantization: what is quantized, types and scales, placement of pairs, calibration, algorithms."""

from __future__ import annotations

import re
from collections.abc import Mapping

from quarkfast.config.equalization import SETTINGS
from quarkfast.config.options.kinds import COUNT, NAME
from quarkfast.config.quark.keys.row import BOTH, Family, Key, Values

__all__ = ["ALGORITHMS", "CALIBRATION", "PLACEMENT", "SELECTION", "TYPES"]

SELECTION = (
    Key("QuantizeAllOpTypes", "option `extra_op_types`, of all", default=(False,), honoured="True"),
    Key(
        "MatMulConstBOnly",
        "constraint `constant_matmul`",
        default=(False,),
        families={"transformer": (True,), "dynamic": (True,)},
        honoured="True, False",
        constraint="constant_matmul",
    ),
    Key(
        "WeightsOnly",
        "weights of 4 and 8 bits and 16-bit floats are stored alone; biases and activations stay float",
        default=(False,),
        honoured="True",
    ),
    Key("EnableSubgraph", "bodies of If, Loop and Scan stay float", default=(False,)),
    Key("MixedPrecisionTensor", "option `tensors`", default=({}, None), honoured="a mapping of types to tensors"),
    Key("SpecificTensorPrecision", "whether MixedPrecisionTensor is read", default=(False,), honoured="True"),
    Key(
        "AlignEltwiseQuantType",
        "constraint `elementwise_constants`: a constant operand takes the type of activations",
        default=(False,),
        families={"cnn": BOTH, "transformer": BOTH, "dynamic": BOTH, "block": BOTH},
        honoured="True",
        constraint="elementwise_constants",
    ),
    Key("EnableDualQuantNodePairs", "a tensor has one type", default=(False,)),
    Key("NodesWithMixedPrecision", "Quark sets it itself", default=([], None)),
    Key("EnableNPUCnn", "the target ryzenai-xint8", honoured="True, False"),
    Key("AutoMixprecision", "`mixed_precision`", honoured="a mapping of Quark's settings"),
)


_BLOCKS = "each reader of a tensor has blocks along the axis that it sums over"


def _attributes(name: str, formats: str) -> Key:
    why = "the block format; without one they are an error"
    return Key(name, why, default=({}, None), families={"block": ()}, honoured=f"the attributes of {formats}")


TYPES = (
    Key("ActivationSymmetric", "option `activation_symmetric`", honoured="True, False"),
    Key("WeightSymmetric", "option `weight_symmetric`", honoured="True, False"),
    Key("QuantizeBias", "option `bias`", default=(True,), honoured="False"),
    Key(
        "Int32Bias",
        "option `bias`: int32, or the type of weights",
        default=(True,),
        families={"cnn": (False,), "float": (False,), "block": (False,)},
        honoured="True, False",
    ),
    Key("Int16Bias", "option `bias`", default=(False,), honoured="True"),
    Key(
        "AdjustWeightScaleForInt32Bias",
        "the scale of a weight is raised where its bias would leave int32",
        default=(False,),
        already=BOTH,
    ),
    Key(
        "Int16Scale",
        "scales are M / 2^N with M up to 32767 and N up to 16, as with ScaleType.Int16",
        default=(False,),
        honoured="True",
    ),
    Key("UsePowerOf2Scale", "use float scales (ScaleType.Float32) instead", default=(True,)),
    Key("QuantizeFP16", "a float16 model is recognized by itself", already=BOTH),
    Key(
        "UseFP32Scale",
        "option `float16_scales`: a float16 model stays in float16, which becomes float32 otherwise; the scales of "
        "weights alone have its type anyway",
        default=(True, None),
        honoured="False",
    ),
    Key("UseUnsignedReLU", "it has no effect in Quark either; leave it out", default=(False,), dead=True),
    Key(
        "MinMSEModeFloatScale",
        "`minmse` searches over all values",
        default=("Percentile",),
        already=("All",),
    ),
    Key(
        "BFPAttributes",
        "the block format",
        default=({}, None),
        families={"block": ()},
        honoured="the attributes of bfp16, mx4, mx6 or mx9",
    ),
    Key(
        "MXAttributes",
        "the block format",
        default=({}, None),
        families={"block": ()},
        honoured="the attributes of an MX format",
    ),
    Key(
        "RefineBlockAxis",
        _BLOCKS,
        default=(True, False),
        families={"block": (True,)},
    ),
    Key("EnableVaimlBF16", "option `vaiml`", default=(False,), honoured="True"),
    Key("UseMatMulNBits", "the preset MATMUL_NBITS", default=(False,), honoured="True"),
    Key("MatMulNBitsParams", "the preset MATMUL_NBITS", honoured="a mapping of Quark's settings"),
)


_FUSED = "the target computes the function along with the layer in front of it"
_NOTHING: Mapping[Family, Values] = {"transformer": BOTH, "dynamic": BOTH, "block": BOTH}


def _fused(name: str, constraint: str, default: bool) -> Key:
    why = f"constraint `{constraint}`: {_FUSED}"
    return Key(name, why, default=(default,), families=_NOTHING, honoured=repr(not default), constraint=constraint)


def _joined(name: str, constraint: str) -> Key:
    why = f"constraint `{constraint}`: no pair stands between the two"
    return Key(name, why, default=(False,), families=_NOTHING, honoured="True", constraint=constraint)


def _shared(name: str, value: str) -> Key:
    return Key(name, f"option `shares`: {value}", default=(False,), honoured="True")


PLACEMENT = (
    Key("ForceQuantizeNoInputCheck", "option `force_pass_through`", honoured="True, False"),
    _shared("DedicatedQDQPair", "nothing"),
    _shared("DedicateDQNode", "codes"),
    Key("QDQOpTypePerChannelSupportToAxis", "channels lie where the operator has them", default=({},)),
    _fused("RemoveQDQConvClip", "fuse_clip", True),
    _fused("RemoveQDQConvRelu", "fuse_relu", True),
    _fused("RemoveQDQConvLeakyRelu", "fuse_leaky_relu", True),
    _fused("RemoveQDQConvPRelu", "fuse_prelu", True),
    _fused("RemoveQDQConvGelu", "fuse_gelu", False),
    _joined("RemoveQDQInstanceNorm", "fuse_instance_norm"),
    Key(
        "RemoveFusedQDQ",
        "no node stands between a layer and the activation that the target computes along, in blocks too",
        default=(False,),
        already=BOTH,
    ),
    _joined("RemoveQDQMulAdd", "fuse_mul_add"),
    Key(
        "RemoveQDQBetweenOps",
        "option `fuse`",
        default=([], None),
        honoured="pairs of operator types",
    ),
    Key("UseQDQContribOps", "option `contrib_pairs`", default=(False,), honoured="True"),
    Key("UseQDQVitisCustomOps", "it has no effect in Quark either; leave it out", default=(True,), dead=True),
)


_DEAD = "it has no effect in Quark either; leave it out"
_MEMORY = "activations are never written to files, nor kept"

CALIBRATION = (
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


def _cle(name: str) -> Key:
    return Key(name, "`equalize_options`; left out, quarkfast's own default holds", honoured=_expects(name))


def _expects(name: str) -> str:
    setting = "cle_" + re.sub("(?<!^)(?=[A-Z])", "_", name.removeprefix("CLE")).lower()
    return SETTINGS[setting].expects


ALGORITHMS = (
    Key("FastFinetune", "option `rounding`", honoured="a mapping of Quark's settings"),
    Key("UseGPTQ", "option `rounding`", default=(False,), honoured="True"),
    Key("GPTQParams", "option `rounding`", honoured="a mapping of Quark's settings"),
    Key("SmoothAlpha", "option `smooth_alpha`, beside SmoothQuant", default=(0.5,), honoured="a number from 0 to 1"),
    Key("RMatrixDim", "a matrix has as many channels as the stream that it turns", already=COUNT),
    Key(
        "UseRandomHad",
        "option `rotation`, beside `QuarotConfig` or `include_rotation`",
        default=(False,),
        honoured="True",
    ),
    Key("RConfigPath", "streams are found in the graph", default=(None, ""), noted=NAME),
    Key("CLEBalanceMethod", "largest magnitudes are made alike, as Quark does whatever this says", default=("max",)),
    _cle("CLESteps"),
    _cle("CLEWeightThreshold"),
    _cle("CLEScaleUseThreshold"),
    _cle("CLETotalLayerDiffThreshold"),
    _cle("CLEScaleAppendBias"),
)
