"""Partitioning: what the NPU is expected to run, in how many pieces, and shapes that it does not take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from quarkfast.deferred import ir
from quarkfast.graph.access import holds_floats, is_constant, is_standard, name_of
from quarkfast.graph.operators import DEQUANTIZERS, QUANTIZERS, SHAPE_READERS
from quarkfast.graph.placement import Placement
from quarkfast.targets.checks.finding import describe_nodes, dimensions
from quarkfast.targets.checks.operator_support import Device

__all__ = ["cpu_nodes", "data_dependent_shapes", "dynamic_inputs", "fatal_nodes", "integer_nodes", "unlisted_nodes"]

_INTEGERS = (ir.DataType.INT64, ir.DataType.INT32)

# Operators that ended the process while a session of Ryzen AI 1.8 was made, instead of running on the CPU.
_FATAL: Mapping[str, str] = {
    "If": "one whose branches have shapes that depend on data",
    "LSTM": "it",
}


def fatal_nodes(model: ir.Model) -> Iterator[str]:
    """Yields a finding for each operator that has ended the process in the compiler: onnxsim/onnxsim#1404 and #1432."""
    for op_type, what in _FATAL.items():
        nodes = [node for node in model.graph if is_standard(node) and node.op_type == op_type]
        if nodes:
            yield f"{describe_nodes(nodes)}: {what} has ended the process in the compiler; split the model there"


def cpu_nodes(model: ir.Model, placement: Placement, device: Device) -> Iterator[str]:
    """Yields a finding about the nodes of the data's path that stay on the CPU, and what that does to the rest.

    On the NPU are nodes with Q/DQ pairs; for BF16 also those that AMD's list names, because its compiler takes floats.
    The rest of the graph runs on the CPU (ryzenai.docs.amd.com, "Model Compatibility"). Nodes lie in one subgraph if
    they are connected and no path between them leads over the CPU; the compiler may cut further.
    """
    sides = _sides(model, placement, device)
    left = [node for node, on_npu in sides.items() if not on_npu]
    if not left:
        return
    count = _count_subgraphs(sides)
    rest = "nothing is left for the NPU" if not count else f"the NPU's part is {count} subgraph{'s'[: count - 1]}"
    remedy = "replace them, or cut the model so that they stand at its ends" if count > 1 else "replace them"
    yield f"{len(left)} of {len(sides)} nodes stay on the CPU, {describe_nodes(left)}, and {rest}; {remedy}"


def integer_nodes(model: ir.Model) -> Iterator[str]:
    """Yields a finding about nodes that give int64 or int32: the NPU's formats are int8, int16 and bfloat16."""
    if nodes := [node for node in model.graph if _gives_integers(node)]:
        remedy = "those of shapes are folded away once the inputs' shapes are fixed"
        yield f"{describe_nodes(nodes)}: they give int64 or int32, which the NPU does not compute; {remedy}"


def unlisted_nodes(model: ir.Model, placement: Placement, device: Device) -> Iterator[str]:
    """Yields a finding about quantized nodes whose operators AMD's list does not name for the target's format."""
    if device.floats:
        return
    placed = [node for node in model.graph if name_of(node) in placement.quantized]
    if nodes := [node for node in placed if not _is_listed(node, device)]:
        what = f"AMD's list for {device.name} does not name what they compute, so they may run on the CPU"
        yield f"{describe_nodes(nodes)}: {what}; look for them in vitisai_ep_report.json"


def _is_listed(node: ir.Node, device: Device) -> bool:
    return is_standard(node) and node.op_type in device.listed


def _gives_integers(node: ir.Node) -> bool:
    return any(value.dtype in _INTEGERS for value in node.outputs)


def _sides(model: ir.Model, placement: Placement, device: Device) -> dict[ir.Node, bool]:
    """Returns the nodes on the data's path, in order, and whether each is expected on the NPU.

    What computes shapes or masks without looking at data is not on the path. No node that gives integers is on the NPU.
    """
    sides: dict[ir.Node, bool] = {}
    for node in model.graph:
        floats = any(holds_floats(value) for value in node.outputs)
        if not floats and (node.op_type in SHAPE_READERS or not any(_is_data(value, sides) for value in node.inputs)):
            continue
        placed = name_of(node) in placement.quantized or node.op_type in QUANTIZERS | DEQUANTIZERS
        takes = device.floats if floats else not _gives_integers(node)
        sides[node] = placed or (takes and _is_listed(node, device))
    return sides


def _is_data(value: ir.Value | None, sides: Mapping[ir.Node, bool]) -> bool:
    return value is not None and ((holds_floats(value) and not is_constant(value)) or value.producer() in sides)


def _count_subgraphs(sides: Mapping[ir.Node, bool]) -> int:
    """Returns the number of connected parts of the NPU's nodes with equally many ways to the CPU before them."""
    depth: dict[ir.Node, int] = {}
    island: dict[ir.Node, ir.Node] = {}
    for node, on_npu in sides.items():
        before = [value.producer() for value in node.inputs if value is not None]
        known = [each for each in before if each is not None and each in sides]
        depth[node] = max((depth[each] + (sides[each] and not on_npu) for each in known), default=0)
        if on_npu:
            island[node] = node
            for each in known:
                if sides[each] and depth[each] == depth[node]:
                    island[_root(each, island)] = _root(node, island)
    return len({_root(node, island) for node in island})


def _root(node: ir.Node, island: dict[ir.Node, ir.Node]) -> ir.Node:
    while island[node] is not node:
        island[node] = island[island[node]]
        node = island[node]
    return node


_FIX = "quarkfast convert fixed-shapes MODEL FIXED"


def dynamic_inputs(model: ir.Model, device: Device) -> Iterator[str]:
    """Yields a finding for each input of the model whose dimensions are not all numbers.

    The compiler wants fixed shapes: amd/RyzenAI-SW#172 and #214.
    """
    for value in model.graph.inputs:
        sizes = dimensions(value)
        first = 1 if device.batch and sizes else 0
        unfixed = [str(size) for size in sizes[first:] if not isinstance(size, int)]
        if not unfixed and value.shape is not None:
            continue
        name, shape = name_of(value), ",".join(map(str, sizes))
        what = f"its shape [{shape}] is open in {', '.join(unfixed)}" if sizes else "its shape is unknown"
        yield f"input {name!r}: {what}, and the NPU takes fixed shapes alone; fix it: {_FIX} {_shape(name, sizes)}"


def _shape(name: str, sizes: Sequence[int | str]) -> str:
    """Returns the option that fixes a shape, for a batch of one row, and what is to be filled in."""
    found = [1, *sizes[1:]] if sizes and not isinstance(sizes[0], int) else list(sizes)
    unfixed = ", ".join(size for size in found if isinstance(size, str))
    filled_in = f", with numbers for {unfixed}" if unfixed else "" if sizes else ", with numbers for the dots"
    return f"--shape {name}={','.join(map(str, found)) or '...'}{filled_in}"


def data_dependent_shapes(model: ir.Model) -> Iterator[str]:
    """Yields a finding about the nodes whose outputs have shapes that are less known than those of their inputs."""
    found = [node for node in model.graph if _unknowns(node.outputs) > _unknowns(node.inputs)]
    if found:
        remedy = "fix the shapes of the inputs, and cut the model there if that is not enough"
        yield f"{describe_nodes(found)}: what shapes they give is not known before the model runs; {remedy}"


def _unknowns(values: Sequence[ir.Value | None]) -> int:
    """Returns 0 if every shape is known, 1 if some dimension is open, 2 if some rank is unknown."""
    return max((_unknowns_of(value) for value in values if value is not None and not is_constant(value)), default=0)


def _unknowns_of(value: ir.Value) -> int:
    if value.shape is None:
        return 2
    return int(any(not isinstance(size, int) for size in value.shape))
