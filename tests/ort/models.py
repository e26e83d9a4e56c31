"""Builds models of one operator and runs them with quarkfast's operator library."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

from quarkfast import ort

DOMAINS = ("com.amd.quark", "com.vai.quantize", "quarkfast")
ONNX_TYPES = {
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "uint16": TensorProto.UINT16,
    "int16": TensorProto.INT16,
    "uint32": TensorProto.UINT32,
    "int32": TensorProto.INT32,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
}

Array = NDArray[Any]


def declare(name: str, dtype: Any, shape: Any) -> ValueInfoProto:
    """Declare a graph input or output; shape None means an unknown rank, a None inside an unknown dimension."""
    return helper.make_tensor_value_info(name, ONNX_TYPES[np.dtype(dtype).name], shape)


def one_node(
    op: str,
    inputs: list[Array],
    *,
    output: Any = np.float32,
    domain: str = "com.amd.quark",
    shape: Any = "static",
    constants: tuple[int, ...] = (),
    **attributes: Any,
) -> ModelProto:
    """Model of one node named "node" from inputs x0, x1, ... to y.

    bfloat16 cannot enter or leave a session through NumPy: such inputs are constants, such an output is viewed by
    a Cast to float32, which is exact.
    """
    names = [f"x{index}" for index in range(len(inputs))]
    held = {i for i, x in enumerate(inputs) if x.dtype.name == "bfloat16"} | set(constants)
    is_bfloat16 = np.dtype(output).name == "bfloat16"
    nodes = [helper.make_node(op, names, ["y"], "node", domain=domain, **attributes)]
    if is_bfloat16:
        nodes.append(helper.make_node("Cast", ["y"], ["wide"], to=TensorProto.FLOAT))
    graph = helper.make_graph(
        nodes,
        "one node",
        [
            declare(n, x.dtype, x.shape if shape == "static" else shape)
            for i, (n, x) in enumerate(zip(names, inputs, strict=True))
            if i not in held
        ],
        [declare("wide" if is_bfloat16 else "y", np.float32 if is_bfloat16 else output, None)],
        [numpy_helper.from_array(inputs[i], names[i]) for i in sorted(held)],
    )
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(name, 1) for name in DOMAINS)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def session(model: ModelProto, threads: int | None = None) -> Any:
    return ort.inference_session(model.SerializeToString(), ort.session_options(threads=threads))


def run(op: str, *inputs: Array, threads: int | None = None, **options: Any) -> Array:
    """Run one operator on arrays and return its only output."""
    held = options.get("constants", ())
    feeds = {f"x{i}": x for i, x in enumerate(inputs) if x.dtype.name != "bfloat16" and i not in held}
    (result,) = session(one_node(op, list(inputs), **options), threads).run(None, feeds)
    return np.asarray(result)
