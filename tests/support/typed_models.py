"""Models of two layers with something that is no tensor of floats in front, between, behind or beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

__all__ = ["FED", "TYPED", "typed_model"]

_FLOAT = helper.make_tensor_type_proto(TensorProto.FLOAT, ["N", 8])
_SEQUENCE = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
_OPTIONAL = helper.make_optional_type_proto(_FLOAT)
_TEXT = helper.make_tensor_type_proto(TensorProto.STRING, ["N"])
_KEYS = {"keys_strings": ["a", "b", "c"], "values_int64s": [0, 1, 2], "default_int64": 0, "domain": "ai.onnx.ml"}
_TEXTS = {"keys_int64s": [0, 1, 2], "values_strings": ["a", "b", "c"], "default_string": "a", "domain": "ai.onnx.ml"}
_MAP = helper.make_sequence_type_proto(
    helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
)

# Nodes that make `t` of `h`, which the first layer computes of `x`, and inputs and outputs beside `x` and `y`.
TYPED: Mapping[str, tuple[list[onnx.NodeProto], dict[str, onnx.TypeProto], dict[str, onnx.TypeProto]]] = {
    "text as an input": (
        [
            helper.make_node("LabelEncoder", ["s"], ["i"], **_KEYS),
            helper.make_node("Gather", ["table", "i"], ["e"]),
            helper.make_node("Add", ["h", "e"], ["t"]),
        ],
        {"s": _TEXT},
        {},
    ),
    "text inside": (
        [
            helper.make_node("ArgMax", ["h"], ["best"], axis=1, keepdims=0),
            helper.make_node("LabelEncoder", ["best"], ["s"], **_TEXTS),
            helper.make_node("LabelEncoder", ["s"], ["i"], **_KEYS),
            helper.make_node("Gather", ["table", "i"], ["e"]),
            helper.make_node("Add", ["h", "e"], ["t"]),
        ],
        {},
        {},
    ),
    "text as an output": (
        [
            helper.make_node("Relu", ["h"], ["t"]),
            helper.make_node("ArgMax", ["h"], ["best"], axis=1, keepdims=0),
            helper.make_node("LabelEncoder", ["best"], ["s"], **_TEXTS),
        ],
        {},
        {"s": _TEXT},
    ),
    "a sequence inside": (
        [
            helper.make_node("SplitToSequence", ["h", "split"], ["q"], axis=1),
            helper.make_node("ConcatFromSequence", ["q"], ["t"], axis=1),
        ],
        {},
        {},
    ),
    "a sequence as an output": (
        [
            helper.make_node("Relu", ["h"], ["t"]),
            helper.make_node("SplitToSequence", ["h", "uneven"], ["q"], axis=1),
        ],
        {},
        {"q": _SEQUENCE},
    ),
    "an optional inside": (
        [helper.make_node("Optional", ["h"], ["o"]), helper.make_node("OptionalGetElement", ["o"], ["t"])],
        {},
        {},
    ),
    "an optional as an output": (
        [helper.make_node("Relu", ["h"], ["t"]), helper.make_node("Optional", ["h"], ["o"])],
        {},
        {"o": _OPTIONAL},
    ),
    "maps as an output": (
        [
            helper.make_node("Relu", ["h"], ["t"]),
            helper.make_node("ZipMap", ["h"], ["z"], domain="ai.onnx.ml", classlabels_int64s=list(range(8))),
        ],
        {},
        {"z": _MAP},
    ),
    "booleans and integers as outputs": (
        [
            helper.make_node("Relu", ["h"], ["t"]),
            helper.make_node("Greater", ["h", "half"], ["g"]),
            helper.make_node("ArgMax", ["h"], ["best"], axis=1),
        ],
        {},
        {
            "g": helper.make_tensor_type_proto(TensorProto.BOOL, ["N", 8]),
            "best": helper.make_tensor_type_proto(TensorProto.INT64, ["N", 1]),
        },
    ),
    "codes of 4 bits inside": (
        [
            helper.make_node("QuantizeLinear", ["h", "half", "zero4"], ["c"]),
            helper.make_node("DequantizeLinear", ["c", "half", "zero4"], ["t"]),
        ],
        {},
        {},
    ),
    "codes of 4 bits as an output": (
        [helper.make_node("Relu", ["h"], ["t"]), helper.make_node("QuantizeLinear", ["h", "half", "zero4"], ["c"])],
        {},
        {"c": helper.make_tensor_type_proto(TensorProto.INT4, ["N", 8])},
    ),
    "a weight of 4 bits": (
        [
            helper.make_node("DequantizeLinear", ["codes4", "half", "zero4"], ["w4"]),
            helper.make_node("MatMul", ["h", "w4"], ["t"]),
        ],
        {},
        {},
    ),
    "float64 between": (
        [
            helper.make_node("Cast", ["h"], ["d"], to=TensorProto.DOUBLE),
            helper.make_node("Sqrt", ["d2"], ["d3"]),
            helper.make_node("Cast", ["d3"], ["t"], to=TensorProto.FLOAT),
        ],
        {},
        {},
    ),
    "a constant of text": (
        [
            helper.make_node("LabelEncoder", ["words"], ["i"], **_KEYS),
            helper.make_node("Gather", ["table", "i"], ["e"]),
            helper.make_node("Add", ["h", "e"], ["t"]),
        ],
        {},
        {},
    ),
}
TYPED["float64 between"][0].insert(1, helper.make_node("Mul", ["d", "d"], ["d2"]))

# Inputs that no array of numbers is.
FED: Mapping[str, tuple[onnx.TypeProto, list[onnx.NodeProto]]] = {
    "a sequence": (_SEQUENCE, [helper.make_node("ConcatFromSequence", ["f"], ["e"], axis=0)]),
    "an optional": (_OPTIONAL, [helper.make_node("OptionalGetElement", ["f"], ["e"])]),
    "a map": (
        helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])),
        [helper.make_node("CastMap", ["f"], ["e"], domain="ai.onnx.ml")],
    ),
}


def typed_model(kind: str, opset: int = 21) -> tuple[onnx.ModelProto, dict[str, NDArray[Any]]]:
    """Returns a model of `TYPED` or `FED` and samples for all its inputs of tensors."""
    if kind in FED:
        fed, nodes = FED[kind]
        nodes, inputs, outputs = [*nodes, helper.make_node("Add", ["h", "e"], ["t"])], {"f": fed}, {}
    else:
        nodes, inputs, outputs = TYPED[kind]
    rng = np.random.default_rng(3)
    first, last = helper.make_node("MatMul", ["x", "w1"], ["h"]), helper.make_node("MatMul", ["t", "w2"], ["y"])
    tensors = {
        **{name: rng.normal(0, 0.35, (8, 8)).astype(np.float32) for name in ("w1", "w2")},
        "table": rng.normal(size=(3, 8)).astype(np.float32),
        "half": np.array(0.5, np.float32),
        "split": np.array(4),
        "uneven": np.array([3, 5]),
    }
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in tensors.items()]
    constants.append(helper.make_tensor("zero4", TensorProto.INT4, [], [0]))
    constants.append(helper.make_tensor("codes4", TensorProto.INT4, [8, 8], [*range(-8, 8)] * 4))
    constants.append(helper.make_tensor("words", TensorProto.STRING, [1], [b"b"]))
    read = {name for node in (first, *nodes, last) for name in node.input}
    given = {"x": _FLOAT, **inputs}
    made = {"y": _FLOAT, **outputs}
    graph = helper.make_graph(
        [first, *nodes, last],
        "typed",
        [helper.make_value_info(name, kind) for name, kind in given.items()],
        [helper.make_value_info(name, kind) for name, kind in made.items()],
        [tensor for tensor in constants if tensor.name in read],
    )
    for index, node in enumerate(graph.node):
        node.name = f"{node.op_type.lower()}_{index}"
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    samples: dict[str, NDArray[Any]] = {"x": rng.normal(size=(8, 8)).astype(np.float32)}
    if "s" in inputs:
        samples["s"] = np.array(["a", "b", "q", "c"] * 2)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), samples
