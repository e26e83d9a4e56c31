"""ONNX Runtime on CPUs: where its CPU provider has an integer kernel, or its optimizer moves the pairs through."""

from types import MappingProxyType

from quarkfast.targets.rule_tables import ACTIVATION, AVERAGE, COMPUTE, FIRST, MOVEMENT, SOFTMAX, rows
from quarkfast.targets.rules import Rule
from quarkfast.targets.target import Target

__all__ = ["ORT_CPU"]

ORT_CPU = Target(
    name="ort-cpu",
    rules=MappingProxyType(
        {
            **rows(Rule(inputs=(0, 1)), "Conv", "Gemm", "MatMul"),
            **MOVEMENT,
            **SOFTMAX,
            **rows(COMPUTE, "Add", "Concat", "Mul"),
            **rows(FIRST, "GlobalAveragePool", "Sigmoid"),
            **rows(ACTIVATION, "Clip", "LeakyRelu", "Relu"),
            "AveragePool": AVERAGE,
            "Where": Rule(inputs=(1, 2)),
        }
    ),
    # ReluQuantFusion and ClipQuantFusion drop the activation when the following Q saturates at its bounds, which the
    # zero point of an asymmetric range does.
    fused=MappingProxyType(dict.fromkeys(("Clip", "Relu"), frozenset({"Add", "Conv", "Gemm", "MatMul", "Mul"}))),
    constants="activation",
    cpu_kernels=True,
)
