"""onnxruntime's own kernels: models of one node (or a pair), bound to preallocated memory, no graph optimization."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from bench.operations import OPERATIONS
from bench.workload import Entry, Workload

NAME = "onnxruntime"
EXACT = True
HAS_THREADS = True

OPSET = 21
_QUANTIZED = ("int8", "uint8", "int16", "uint16")
_READS_CODES = ("dequantize_linear", "widen")
_WRITES_CODES = ("quantize_linear", "cast")


def _session(nodes: list[Any], work: Workload, types: tuple[int, int], threads: int) -> onnxruntime.InferenceSession:
    scale, zero_point = np.asarray(work.scale), np.asarray(work.zero_point)
    constants = []
    if any("s" in node.input for node in nodes):
        constants.append(helper.make_tensor("s", TensorProto.FLOAT, scale.shape, scale.tobytes(), raw=True))
    if any("z" in node.input for node in nodes):
        constants.append(helper.make_tensor("z", work.row.onnx, zero_point.shape, zero_point.tobytes(), raw=True))
    ends = [helper.make_tensor_value_info(name, kind, work.shape) for name, kind in zip("xy", types, strict=True)]
    graph = helper.make_graph(nodes, "bench", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # The pair Q, DQ must stay a pair.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _entry(nodes: list[Any], work: Workload, threads: int) -> Entry:
    operation = work.task.operation
    types = tuple(work.row.onnx if operation in group else TensorProto.FLOAT for group in (_READS_CODES, _WRITES_CODES))
    session = _session(nodes, work, types, threads)
    x = OPERATIONS[operation].input(work)
    given = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
        x.view(np.uint16) if x.dtype.kind == "V" else x, types[0]
    )
    made = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(work.shape), types[1])
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", given)
    binding.bind_ortvalue_output("y", made)
    dtype = work.row.dtype if operation in _WRITES_CODES else np.dtype(np.float32)

    def result() -> Any:
        memory = (ctypes.c_uint8 * (work.x.size * dtype.itemsize)).from_address(made.data_ptr())
        return np.frombuffer(memory, dtype).reshape(work.shape)

    return Entry(lambda: session.run_with_iobinding(binding), result)


def _attributes(work: Workload) -> dict[str, int]:
    return {"axis": work.axis, "block_size": work.block_size} if work.block_size else {"axis": work.axis}


def quantize_linear(work: Workload, threads: int) -> Entry | None:
    if work.task.type not in _QUANTIZED:
        return None
    return _entry([helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], **_attributes(work))], work, threads)


def dequantize_linear(work: Workload, threads: int) -> Entry | None:
    if work.task.type not in _QUANTIZED:
        return None
    return _entry([helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], **_attributes(work))], work, threads)


def fake_quantize_linear(work: Workload, threads: int) -> Entry | None:
    if work.task.type not in _QUANTIZED:
        return None
    first = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **_attributes(work))
    second = helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **_attributes(work))
    return _entry([first, second], work, threads)


def cast(work: Workload, threads: int) -> Entry:
    return _entry([helper.make_node("Cast", ["x"], ["y"], to=work.row.onnx)], work, threads)


def widen(work: Workload, threads: int) -> Entry:
    return _entry([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], work, threads)


def round_trip(work: Workload, threads: int) -> Entry | None:
    if work.row.bits < 8:  # the operator set has no such types
        return None
    there = helper.make_node("Cast", ["x"], ["q"], to=work.row.onnx)
    back = helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)
    return _entry([there, back], work, threads)


SETUPS = {
    "quantize_linear": quantize_linear,
    "dequantize_linear": dequantize_linear,
    "fake_quantize_linear": fake_quantize_linear,
    "cast": cast,
    "widen": widen,
    "round_trip": round_trip,
}
