"""ONNX Runtime's dynamic quantization: layers that have an integer operator, and the tables that Gather reads.

Such operators quantize their first operand by its own range while the model runs. The tables are most of a
transformer's bytes.
"""

from __future__ import annotations

from types import MappingProxyType

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant
from quarkfast.graph.operators import RECURRENT_WEIGHTS
from quarkfast.targets.rules import Rule, constant_weight, rows
from quarkfast.targets.switches import CONVERTED
from quarkfast.targets.target import Target

__all__ = ["ORT_DYNAMIC"]


def _gemm_objection(node: ir.Node) -> str:
    if node.attributes.get_int("transA", 0):
        return "it transposes its first operand"
    beta, bias = node.attributes.get_float("beta", 1.0), node.inputs[2] if len(node.inputs) > 2 else None
    if beta != 1 and bias is not None and not is_constant(bias):
        return "it scales a bias that is no constant"
    return constant_weight(1)(node)


def _lstm_objection(node: ir.Node) -> str:
    if node.attributes.get_int("layout", 0):
        return "DynamicQuantizeLSTM has no layout"
    return next(filter(None, (constant_weight(index)(node) for index in RECURRENT_WEIGHTS)), "")


ORT_DYNAMIC = Target(
    name="ort-dynamic",
    rules=MappingProxyType(
        {
            **rows(Rule(inputs=(0, 1), objection=constant_weight(1)), "Conv", "MatMul"),
            "Gemm": Rule(inputs=(0, 1), objection=_gemm_objection),
            "LSTM": Rule(inputs=(0, *RECURRENT_WEIGHTS), objection=_lstm_objection),
            "Gather": Rule(inputs=(0,), objection=constant_weight(0)),
        }
    ),
    dynamic=True,
    switches=CONVERTED,
    bias="float",
    cpu_kernels=True,
)
