"""What targets change of a model: conversions in front of calibration, and simulations in the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard, name_of
from quarkfast.graph.builder import GraphBuilder, drop_unread
from quarkfast.transforms import simulate_dpu as dpu
from quarkfast.transforms.convert_operators import (
    convert_batch_norm,
    convert_reduce_mean,
    convert_split,
    split_large_pools,
)

__all__ = ["CONVERSIONS", "DPU", "SIMULATIONS", "Conversion", "Simulation", "simulate"]

_Rewrite: TypeAlias = "Callable[[ir.Model], bool]"


class Conversion(NamedTuple):
    """One rewrite of operators into others.

    Attributes:
        name: What turns it on and off.
        op_type: The operator that it looks for.
        becomes: The operator that it writes.
        transform: Rewrites a model in place, and returns whether it changed it. Tensors keep names, and values but for
            rounding, so that statistics of the one model hold for the other.

    Example:
        >>> CONVERSIONS["split_to_slice"].becomes
        'Slice'
    """

    name: str
    op_type: str
    becomes: str
    transform: _Rewrite

    def applies(self, wanted: Collection[str], excluded: Collection[str]) -> bool:
        """Whether operators that are quantized alone, or stay float, are so before and after alike."""
        if self.op_type in excluded or self.becomes in excluded:
            return False
        return not wanted or {self.op_type, self.becomes} <= set(wanted)


_CONVERSIONS = (
    Conversion("batch_norm_to_conv", "BatchNormalization", "Conv", convert_batch_norm),
    Conversion("reduce_mean_to_pool", "ReduceMean", "GlobalAveragePool", convert_reduce_mean),
    Conversion("split_large_pools", "GlobalAveragePool", "AveragePool", split_large_pools),
    Conversion("split_to_slice", "Split", "Slice", convert_split),
)

CONVERSIONS: Mapping[str, Conversion] = MappingProxyType({row.name: row for row in _CONVERSIONS})
"""Name -> conversion, in the order in which they run. Quark does all of them for every NPU."""


_NodeRewrite: TypeAlias = "Callable[[GraphBuilder, ir.Node], bool]"

_KEY = "quarkfast.simulated"


class Simulation(NamedTuple):
    """One difference between ONNX and a device.

    Attributes:
        name: What turns it on and off.
        op_types: The operators that the device computes otherwise.
        rewrite: Has a node of these compute as the device does; returns whether it had to change anything.

    Example:
        >>> SIMULATIONS["dpu_average_pool"].op_types
        ('AveragePool', 'GlobalAveragePool')
    """

    name: str
    op_types: tuple[str, ...]
    rewrite: _NodeRewrite


_SIMULATIONS = (
    Simulation("dpu_leaky_relu", ("LeakyRelu",), dpu.round_leaky_slope),
    Simulation("dpu_sigmoid", ("Sigmoid",), dpu.hard_sigmoid_for_sigmoid),
    Simulation("dpu_hard_sigmoid", ("HardSigmoid",), dpu.scale_hard_sigmoid),
    Simulation("dpu_average_pool", ("AveragePool", "GlobalAveragePool"), dpu.scale_average_pool),
    Simulation("dpu_reduce_mean", ("ReduceMean",), dpu.scale_reduce_mean),
    Simulation("dpu_instance_norm", ("InstanceNormalization",), dpu.extended_instance_norm),
    Simulation("dpu_clip", ("Clip",), dpu.round_clip_bounds),
    Simulation("clip_to_relu", ("Clip",), dpu.clip_to_relu),
)

SIMULATIONS: Mapping[str, Simulation] = MappingProxyType({row.name: row for row in _SIMULATIONS})
"""Name -> simulation, in the order in which they run."""

DPU = tuple(SIMULATIONS[name] for name in ("dpu_leaky_relu", "dpu_hard_sigmoid", "dpu_average_pool", "dpu_reduce_mean"))
"""Those that keep what a node means: its constants as the accelerator's integers hold them."""


def simulate(model: ir.Model, quantized: Collection[str], rows: Collection[Simulation]) -> tuple[str, ...]:
    """Has the quantized nodes of a prepared model compute as the device does, in place; returns notes for the summary.

    Tensors keep their names: what stands for the output of a node has the name that it had. Metadata of the model,
    ``quarkfast.simulated``, counts what was changed.

    Args:
        model: The prepared model, in front of insertion.
        quantized: Names of the nodes that the device computes.
        rows: What it computes otherwise.
    """
    builder, found = GraphBuilder(model), Counter[str]()
    for row in rows:
        for node in tuple(model.graph):
            wanted = is_standard(node) and node.op_type in row.op_types and name_of(node) in quantized
            op_type = node.op_type
            if wanted and row.rewrite(builder, node):
                found[op_type] += 1
                if node.domain:
                    model.opset_imports.setdefault(node.domain, 1)
    if not found:
        return ()
    drop_unread(model.graph)
    words = ", ".join(f"{count} {op_type}" for op_type, count in sorted(found.items()))
    model.metadata_props[_KEY] = words
    return (f"computed as the accelerator does: {words}",)
