"""ONNX Runtime on CPUs: where its CPU provider has an integer kernel, or its optimizer moves the pairs through."""

from types import MappingProxyType

from quarkfast.targets.rules import ACTIVATION, AVERAGE, COMPUTE, FIRST, MOVEMENT, SOFTMAX, Rule, rows
from quarkfast.targets.switches import CONVERTED, FLOAT_SCALES, SIMULATED, behind_products, fusion
from quarkfast.targets.target import Target

__all__ = ["ORT_CPU"]

_PRODUCERS = frozenset({"Add", "Conv", "Gemm", "MatMul", "Mul"})

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
    fused=MappingProxyType(dict.fromkeys(("Clip", "Relu"), _PRODUCERS)),
    constants="activation",
    cpu_kernels=True,
    switches=MappingProxyType(
        {
            **FLOAT_SCALES,
            **CONVERTED,
            "clip_to_relu": SIMULATED["clip_to_relu"],
            "fuse_clip": fusion("Clip", _PRODUCERS),
            "fuse_leaky_relu": fusion("LeakyRelu", _PRODUCERS),
            "fuse_mul_add": behind_products,
            "fuse_prelu": fusion("PRelu", _PRODUCERS),
            "fuse_relu": fusion("Relu", _PRODUCERS),
        }
    ),
)
