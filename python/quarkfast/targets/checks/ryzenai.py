"""What keeps the NPU of Ryzen AI from running a model or a part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.opset import opset_version
from quarkfast.targets.checks.operator_support import OPSET, Device
from quarkfast.targets.checks.partitioning import cpu_nodes, fatal_nodes, integer_nodes, unlisted_nodes
from quarkfast.targets.checks.pools import resized_pools
from quarkfast.targets.checks.shapes import data_dependent_shapes, dynamic_inputs
from quarkfast.targets.target import Check

__all__ = ["ryzenai_checks"]


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
