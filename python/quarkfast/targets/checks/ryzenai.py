"""Checks for Ryzen AI: pools whose shape the compiler computes otherwise than ONNX, operators, shapes, partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.graph.access import is_standard, name_of
from quarkfast.graph.opset import opset_version
from quarkfast.targets.checks.finding import dimensions
from quarkfast.targets.checks.operator_support import OPSET, Device
from quarkfast.targets.checks.partitioning import (
    cpu_nodes,
    data_dependent_shapes,
    dynamic_inputs,
    fatal_nodes,
    integer_nodes,
    unlisted_nodes,
)
from quarkfast.targets.target import Check

__all__ = ["resized_pools", "ryzenai_checks"]

_POOLS = ("AveragePool", "MaxPool")


def resized_pools(model: ir.Model) -> Iterator[str]:
    """Yields a finding for each pool whose size is not what kernel, strides, dilations and pads alone give.

    That of a text recognizer's stem, a MaxPool of 2 x 2 with stride 1 and ``auto_pad = SAME_UPPER``, ended the
    compilation with "Check failed: op_has_same_shape": 24 x 160 by ONNX, 23 x 159 by the compiler (amd/RyzenAI-SW#256
    and #264, Ryzen AI 1.6.0). ``ceil_mode`` is another attribute that adds to that size.
    """
    for node in model.graph:
        if is_standard(node) and node.op_type in _POOLS and (causes := _causes(node)):
            yield from _judge(node, causes)


def _causes(node: ir.Node) -> str:
    padding, ceil = node.attributes.get_string("auto_pad", "NOTSET"), node.attributes.get_int("ceil_mode", 0)
    found = [f"auto_pad = {padding}"] if padding.startswith("SAME") else []
    return " and ".join(found + (["ceil_mode = 1"] if ceil else []))


def _judge(node: ir.Node, causes: str) -> Iterator[str]:
    where = f"{node.op_type} {name_of(node)!r}: {causes}"
    before, after = _fixed_sizes(node.inputs[0]), _fixed_sizes(node.outputs[0])
    if before is None or after is None:
        yield f"{where} makes its size depend on the input's; fix the input's shape and look again"
        return
    window = _window(node, len(before))
    if window is None or len(after) != len(before):  # no pool that runs anywhere
        return
    plain = [window.room(axis, size) // window.strides[axis] + 1 for axis, size in enumerate(before)]
    if plain != after:
        pads = _equal_pads(window, before, after, node.attributes.get_string("auto_pad", ""))
        remedy = f"write pads = {pads} in its place" if _may_pad(node, window, pads) else "use a window that fits"
        gives = f"gives {_times(after)} where kernel, strides and pads alone give {_times(plain)}"
        yield f"{where} {gives}, and the compiler has refused such a pool; {remedy}"


def _fixed_sizes(value: ir.Value | None) -> list[int] | None:
    """Returns the dimensions behind batch and channels, or None if one of them is open."""
    sizes = [] if value is None else dimensions(value)[2:]
    fixed = [size for size in sizes if isinstance(size, int)]
    return fixed if sizes and len(fixed) == len(sizes) else None


class _Window(NamedTuple):
    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]

    def room(self, axis: int, size: int) -> int:
        """Returns how far the window can move along an axis of `size` elements."""
        begin, end = self.pads[axis], self.pads[axis + len(self.kernel)]
        return size + begin + end - (self.kernel[axis] - 1) * self.dilations[axis] - 1


def _window(node: ir.Node, rank: int) -> _Window | None:
    defaults = {"kernel_shape": (), "strides": [1] * rank, "dilations": [1] * rank, "pads": [0] * (2 * rank)}
    kernel, strides, dilations, pads = (list(node.attributes.get_ints(*each)) for each in defaults.items())
    lengths = [len(each) for each in (kernel, strides, dilations, pads)]
    if lengths != [rank, rank, rank, 2 * rank] or min(strides) < 1:
        return None
    return _Window(kernel, strides, dilations, pads)


def _equal_pads(window: _Window, before: list[int], after: list[int], auto_pad: str) -> list[int]:
    """Returns the pads with which the window gives the sizes `after` without another attribute."""
    pads, rank = list(window.pads), len(before)
    for axis, size in enumerate(before):
        missing = max((after[axis] - 1) * window.strides[axis] - window.room(axis, size), 0)
        begin = {"SAME_UPPER": missing // 2, "SAME_LOWER": missing - missing // 2}.get(auto_pad, 0)
        pads[axis] += begin
        pads[axis + rank] += missing - begin
    return pads


def _may_pad(node: ir.Node, window: _Window, pads: list[int]) -> bool:
    """Whether `pads` mean the same (``ceil_mode`` counts nothing into an average) and are smaller than the window."""
    counted = node.op_type == "AveragePool" and node.attributes.get_int("count_include_pad", 0) == 1
    return not counted and all(pad < size for pad, size in zip(pads, window.kernel * 2, strict=True))


def _times(sizes: list[int]) -> str:
    return " x ".join(map(str, sizes))


def ryzenai_checks(device_of: Callable[[Scheme], Device]) -> tuple[Check, ...]:
    """Returns the checks of a target on Ryzen AI, in the order of the report.

    Nothing here was run on an NPU: each finding holds the model against what AMD documents or what its users reported,
    as the functions that make them cite.

    Args:
        device_of: What the compiler takes, by the types of a scheme.
    """
    return (
        lambda model, placement, scheme: _old_opset(model),
        lambda model, placement, scheme: dynamic_inputs(model, device_of(scheme)),
        lambda model, placement, scheme: data_dependent_shapes(model),
        lambda model, placement, scheme: _other_floats(model),
        lambda model, placement, scheme: fatal_nodes(model),
        lambda model, placement, scheme: resized_pools(model),
        lambda model, placement, scheme: cpu_nodes(model, placement, device_of(scheme)),
        lambda model, placement, scheme: integer_nodes(model),
        lambda model, placement, scheme: unlisted_nodes(model, placement, device_of(scheme)),
    )


def _old_opset(model: ir.Model) -> Iterator[str]:
    version = opset_version(model)
    if version < OPSET:
        remedy = f"convert it with onnx.version_converter.convert_version(model, {OPSET})"
        yield f"model: the result has operator set {version}, and AMD recommends {OPSET} for the NPU; {remedy}"


def _other_floats(model: ir.Model) -> Iterator[str]:
    """Yields a finding for each input of another floating type than float32, which graphs for the NPU have on edges."""
    for value in model.graph.inputs:
        if value.dtype is not None and value.dtype.is_floating_point() and value.dtype != ir.DataType.FLOAT:
            what = f"its type is {value.dtype.name.lower()}, which the NPU does not take"
            yield f"input {name_of(value)!r}: {what}; export the model with float32 inputs"
