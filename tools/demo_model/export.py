"""Writes the trained network as ONNX, layer by layer, BatchNorm not folded."""

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from .layers import (
    BN_EPSILON,
    BatchNorm,
    Conv,
    DepthwiseConv,
    Gemm,
    GlobalAveragePool,
    Layer,
    Relu,
    Residual,
    Sequential,
)
from .network import CLASSES

OPSET = 17
IR_VERSION = 8  # the one that came with opset 17, so that every runtime that knows the opset opens the file


class Writer:
    """Collects nodes and initializers; every `add` returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.counts: dict[str, int] = {}

    def add(self, op_type: str, inputs: list[str], weights: dict[str, NDArray[np.float32]], **attributes: Any) -> str:
        index = self.counts[op_type] = self.counts.get(op_type, 0) + 1
        name = f"{op_type.lower()}{index}"
        for suffix, value in weights.items():
            self.initializers.append(numpy_helper.from_array(value, f"{name}.{suffix}"))
        names = inputs + [f"{name}.{suffix}" for suffix in weights]
        self.nodes.append(helper.make_node(op_type, names, [f"{name}.out"], name=name, **attributes))
        return f"{name}.out"

    def write(self, layer: Layer, x: str) -> str:
        """Adds a layer that reads the tensor `x`; returns the name of its output."""
        match layer:
            case Sequential():
                for child in layer.layers:
                    x = self.write(child, x)
                return x
            case Residual():
                total = self.add("Add", [self.write(layer.body, x), x], {})
                return self.add("Relu", [total], {})
            case Conv() | DepthwiseConv():
                return self.add(
                    "Conv",
                    [x],
                    {"weight": layer.params["W"]},
                    kernel_shape=[layer.kernel] * 2,
                    strides=[layer.stride] * 2,
                    pads=[layer.pad] * 4,
                    group=layer.group,
                )
            case BatchNorm():
                statistics = {**layer.params, "mean": layer.mean, "var": layer.var}
                return self.add("BatchNormalization", [x], statistics, epsilon=BN_EPSILON)
            case Relu():
                return self.add("Relu", [x], {})
            case GlobalAveragePool():
                return self.add("Flatten", [self.add("GlobalAveragePool", [x], {})], {}, axis=1)
            case Gemm():
                return self.add("Gemm", [x], {"weight": layer.params["W"], "bias": layer.params["b"]}, transB=1)
        raise TypeError(f"write: expected a layer of the demo model, got {type(layer).__name__}")


def to_onnx(network: Sequential) -> onnx.ModelProto:
    """The model: `image` float32 [N, 1, 8, 8] in 0..1 to `logits` float32 [N, 10]."""
    writer = Writer()
    writer.write(network, "image")
    writer.nodes[-1].output[0] = "logits"
    graph = helper.make_graph(
        writer.nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", CLASSES])],
        writer.initializers,
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="quarkfast demo"
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def parameters_from_onnx(network: Sequential, model: onnx.ModelProto) -> None:
    """Puts a stored model's weights into a network of the same layers: the inverse of `to_onnx`."""
    values = iter([numpy_helper.to_array(tensor) for tensor in model.graph.initializer])

    def fill(layer: Layer) -> None:
        for child in layer.layers if isinstance(layer, Sequential) else []:
            fill(child)
        if isinstance(layer, Residual):
            fill(layer.body)
        for name in layer.params:
            layer.params[name] = next(values)
        if isinstance(layer, BatchNorm):
            layer.mean, layer.var = next(values), next(values)

    fill(network)
