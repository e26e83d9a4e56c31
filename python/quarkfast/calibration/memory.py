"""Memory estimate of a calibration, and how much the process has."""

from __future__ import annotations

import math
import re

import onnx

from quarkfast import _core
from quarkfast.calibration.data import Feed
from quarkfast.deferred import ir
from quarkfast.errors import ConfigError
from quarkfast.graph.shape_inference import inferred, large_tensors_aside
from quarkfast.graph.subgraphs import graphs_of

__all__ = [
    "LIVE_BYTES",
    "live_bytes",
    "parse_bytes",
    "readable",
    "resident_bytes",
    "rows_within_budget",
    "weight_bytes",
]

_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}

# Activations that a run keeps live. ONNX Runtime holds up to four times as much: blocked copies of them, and its arena
# grows by powers of two. More is no faster, as activations then leave the caches: CPU seconds of a whole job in A8W8
# with 64 samples, and peak MB, for 4, 8 and 16 MB: a residual network (0.4 MB live a row) 0.52, 0.51, 0.53 and 98,
# 102, 102; a depthwise one (1.7 MB) 0.60, 0.61, 0.60 and 101, 106, 116; 16 samples of a text recognizer (11 MB) 1.26,
# 1.25, 1.24.
LIVE_BYTES = 4 << 20
# Beyond this a call costs nothing beside the work: in the residual network, 0.2 MB a row.
_MOST_ROWS = 32

# Types of elements that take no known number of bytes: nothing is known, and text of any length.
_WITHOUT_SIZE = (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING)

# Sizes from which on onnx is not let follow the values of ConstantOfShape: for 2^20 of them it takes 0.8 s and 230 MB.
_FOLLOWED = 1 << 16


def parse_bytes(size: int | str, where: str = "max_memory") -> int:
    """Returns a size in bytes, given as such or as text with a unit.

    Raises:
        ConfigError: If it is not understood, or is not greater than 0.

    Example:
        >>> parse_bytes("1.5 GB"), parse_bytes("512MiB"), parse_bytes(10)
        (1500000000, 536870912, 10)
    """
    matched = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]?i?)b?\s*", str(size).lower())
    if isinstance(size, bool) or not matched or matched[2] not in _UNITS or not float(matched[1]):
        raise ConfigError(f"{where}: expected a size such as 2GB or 512MiB, got {size!r}")
    return int(float(matched[1]) * _UNITS[matched[2]])


def readable(size: float) -> str:
    """Writes a size in bytes for a person.

    Example:
        >>> readable(1234567), readable(999), readable(2.5e9)
        ('1.2 MB', '999 B', '2.5 GB')
    """
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def resident_bytes() -> int | None:
    """Returns the resident memory of this process in bytes, or None where the system does not tell."""
    return _core.resident_bytes() or None


def weight_bytes(model: ir.Model) -> int:
    """Returns the bytes of all initializers of `model`."""
    values = (value.const_value for graph in graphs_of(model) for value in graph.initializers.values())
    return sum(tensor.nbytes for tensor in values if tensor is not None)


def rows_within_budget(live: int, budget: int | None = None) -> int:
    """Returns how many rows a run has, given the bytes of activations that one keeps live: a power of two.

    The budget is `LIVE_BYTES`, or what is given. Samples shared out in multiples of 32 make the runs that they make
    together.

    Example:
        >>> rows_within_budget(100), rows_within_budget(800_000), rows_within_budget(10**9)
        (32, 4, 1)
        >>> rows_within_budget(800_000, budget=16 << 20)
        16
    """
    return 1 << (max(1, min(_MOST_ROWS, (budget or LIVE_BYTES) // max(1, live))).bit_length() - 1)


def live_bytes(model: ir.Model, feed: Feed) -> int:
    """Returns the most bytes of activations that are needed at one time when `model` runs on `feed`.

    Nodes are taken in the model's order; an activation lives from the node that makes it to the last that reads it, and
    graph inputs and outputs to the end. What shape inference cannot tell counts nothing, and neither do text and the
    bodies of If, Loop and Scan.
    """
    graph = _shaped(model, feed)
    known = {info.name: info.type.tensor_type for info in (*graph.value_info, *graph.input, *graph.output)}
    sizes = {name: _bytes_of(kind) for name, kind in known.items()}
    constants = {tensor.name for tensor in graph.initializer}
    last = {name: index for index, node in enumerate(graph.node) for name in node.input}
    kept = {info.name for info in (*graph.input, *graph.output)}
    live: int = sum(sizes[info.name] for info in graph.input)
    peak = live
    for index, node in enumerate(graph.node):
        live += sum(sizes.get(name, 0) for name in node.output)
        peak = max(peak, live)
        over = {name for name in (*node.input, *node.output) if last.get(name, index) == index} - kept - constants
        live -= sum(sizes.get(name, 0) for name in over)
    return peak


def _shaped(model: ir.Model, feed: Feed) -> onnx.GraphProto:
    """Returns the graph of `model` with the shapes that its tensors have on `feed`, as far as onnx is able to tell."""
    with large_tensors_aside(model):
        proto = ir.serde.serialize_model(model)
    del proto.graph.value_info[:]
    for info in proto.graph.input:
        if info.name in feed:
            info.type.tensor_type.ClearField("shape")
            for size in feed[info.name].shape:
                info.type.tensor_type.shape.dim.add(dim_value=size)
    for info in proto.graph.output:
        info.type.tensor_type.ClearField("shape")
    found = inferred(proto, propagate=_may_follow(model))
    return proto.graph if found is None else found.graph


def _may_follow(model: ir.Model) -> bool:
    """Whether onnx may follow values to infer shapes, which would take long where ConstantOfShape makes many."""
    nodes = [node for node in model.graph if node.op_type == "ConstantOfShape"]
    constants = (ir.convenience.get_const_tensor(node.inputs[0]) for node in nodes if node.inputs[0] is not None)
    sizes = [size for value in model.graph.inputs if value.shape for size in value.shape if isinstance(size, int)]
    sizes += [int(size) for tensor in constants if tensor is not None for size in tensor.numpy().reshape(-1)]
    return not nodes or max(sizes, default=0) <= _FOLLOWED


def _bytes_of(kind: onnx.TypeProto.Tensor) -> int:
    sizes = kind.shape.dim
    if (
        kind.elem_type in _WITHOUT_SIZE
        or not kind.HasField("shape")
        or not all(size.HasField("dim_value") for size in sizes)
    ):
        return 0
    count: int = math.prod(size.dim_value for size in sizes)
    return math.ceil(count * ir.DataType(kind.elem_type).itemsize)
