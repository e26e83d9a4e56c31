"""Keys of what is quantized."""

from __future__ import annotations

from quarkfast.config.quark.keys.row import BOTH, Key

__all__ = ["ROWS"]

ROWS = (
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
