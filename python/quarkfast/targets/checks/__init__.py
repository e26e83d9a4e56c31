"""What keeps the NPU from running a model or a part of it, before anything is computed."""

from __future__ import annotations

from collections.abc import Iterator

from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.opset import opset_version
from quarkfast.graph.placement import Placement
from quarkfast.targets.checks.operator_support import OPSET, find_device
from quarkfast.targets.checks.partitioning import cpu_nodes, doubtful_nodes, fatal_nodes, integer_nodes
from quarkfast.targets.checks.pools import odd_pools
from quarkfast.targets.checks.shapes import open_inputs, open_outputs

__all__ = ["preflight"]


def preflight(model: ir.Model, placement: Placement, scheme: Scheme) -> tuple[str, ...]:
    """Returns the findings about a prepared model, one sentence each with a remedy; none for a target that is no NPU.

    Nothing here was run on an NPU: each finding holds the model against what AMD documents or what its users reported,
    as the functions that make them cite.

    Args:
        model: The prepared model, before insertion.
        placement: Where its pairs go.
        scheme: Its target and the type of its activations say which compiler.
    """
    device = find_device(scheme)
    if device is None:
        return ()
    return (
        *_old_opset(model),
        *open_inputs(model, device),
        *open_outputs(model),
        *_other_floats(model),
        *fatal_nodes(model),
        *odd_pools(model),
        *cpu_nodes(model, placement, device),
        *integer_nodes(model),
        *doubtful_nodes(model, placement, device),
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
