"""What a target computes otherwise than ONNX, written into the result, by the names that turn it on and off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard, name_of
from quarkfast.graph.builder import GraphBuilder, drop_unread
from quarkfast.transforms import simulate_dpu as dpu

__all__ = ["DPU", "SIMULATIONS", "Simulation", "simulate"]

_Rewrite: TypeAlias = "Callable[[GraphBuilder, ir.Node], bool]"

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
    rewrite: _Rewrite


_ROWS = (
    Simulation("dpu_leaky_relu", ("LeakyRelu",), dpu.round_leaky_slope),
    Simulation("dpu_sigmoid", ("Sigmoid",), dpu.hard_sigmoid_for_sigmoid),
    Simulation("dpu_hard_sigmoid", ("HardSigmoid",), dpu.scale_hard_sigmoid),
    Simulation("dpu_average_pool", ("AveragePool", "GlobalAveragePool"), dpu.scale_average_pool),
    Simulation("dpu_reduce_mean", ("ReduceMean",), dpu.scale_reduce_mean),
    Simulation("dpu_instance_norm", ("InstanceNormalization",), dpu.extended_instance_norm),
    Simulation("dpu_clip", ("Clip",), dpu.round_clip_bounds),
    Simulation("clip_to_relu", ("Clip",), dpu.clip_to_relu),
)

SIMULATIONS: Mapping[str, Simulation] = MappingProxyType({row.name: row for row in _ROWS})
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
