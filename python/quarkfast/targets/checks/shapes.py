"""Dimensions that are not fixed: at the inputs, and where a node makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, name_of
from quarkfast.targets.checks.formatting import describe_nodes, dimensions
from quarkfast.targets.checks.operator_support import Device

__all__ = ["data_dependent_shapes", "dynamic_inputs"]

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
