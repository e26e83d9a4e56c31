"""Keys of types and scales."""

from __future__ import annotations

from quarkfast.config.quark.keys.row import BOTH, Key

__all__ = ["ROWS"]

_BLOCKS = "each reader of a tensor has blocks along the axis that it sums over"


def _attributes(name: str, formats: str) -> Key:
    why = "the block format; without one they are an error"
    return Key(name, why, default=({}, None), families={"block": ()}, honoured=f"the attributes of {formats}")


ROWS = (
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
        "option `float16_scales`: a float16 model stays in float16, which becomes float32 otherwise",
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
