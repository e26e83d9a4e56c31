"""How much memory a calibration will take, and how much the process has."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from quarkfast.calibration.data import Feed
from quarkfast.deferred import ir, passes
from quarkfast.errors import ConfigError
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["live_bytes", "parse_bytes", "readable", "resident_bytes", "rows_within_budget", "weight_bytes"]

_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_STATM = Path("/proc/self/statm")

# Activations that a run keeps live. ONNX Runtime holds up to four times as much: blocked copies of them, and its arena
# grows by powers of two. More is no faster, as activations then leave the caches: CPU seconds of A8W8 with 64 samples,
# and peak MB, for 1, 4, 16, 32 rows: mobilenetv2 (0.9 MB live a row) 0.67, 0.63, 0.68, 0.76 and 104, 106, 119, 140;
# ppocr_rec (3.1 MB) 3.3, 3.1, 4.1, 4.9 and 195, 197, 255, 340.
_BUDGET = 16 << 20
# Beyond this a call costs nothing beside the work: resnet20, 0.2 MB a row.
_MOST_ROWS = 32

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
    if _STATM.exists():
        import resource

        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return None


def weight_bytes(model: ir.Model) -> int:
    """Returns the bytes of all initializers of `model`."""
    values = (value.const_value for graph in graphs_of(model) for value in graph.initializers.values())
    return sum(tensor.nbytes for tensor in values if tensor is not None)


def rows_within_budget(live: int) -> int:
    """Returns how many rows a run has, given the bytes of activations that one keeps live: a power of two.

    So samples shared out in multiples of 32 make the runs that they make together.

    Example:
        >>> rows_within_budget(100), rows_within_budget(3_100_000), rows_within_budget(10**9)
        (32, 4, 1)
    """
    return 1 << (max(1, min(_MOST_ROWS, _BUDGET // max(1, live))).bit_length() - 1)


def live_bytes(model: ir.Model, feed: Feed) -> int:
    """Returns the most bytes of activations that are needed at one time when `model` runs on `feed`.

    Nodes are taken in the model's order; an activation lives from the node that makes it to the last that reads it, and
    graph inputs and outputs to the end. What shape inference cannot tell counts nothing, and neither do the bodies of
    If, Loop and Scan.
    """
    shaped = model.clone()
    for value in shaped.graph.inputs:
        if value.name in feed:
            value.shape = ir.Shape(feed[value.name].shape)
    for node in shaped.graph:
        for output in node.outputs:
            output.shape = None
    passes.ShapeInferencePass(check_type=False, strict_mode=False, data_prop=_may_follow(shaped))(shaped)
    nodes = list(shaped.graph)
    last = {value: index for index, node in enumerate(nodes) for value in _reads(node)}
    kept = {*shaped.graph.inputs, *shaped.graph.outputs}
    live = peak = sum(map(_bytes_of, shaped.graph.inputs))
    for index, node in enumerate(nodes):
        live += sum(map(_bytes_of, node.outputs))
        peak = max(peak, live)
        over = {value for value in (*_reads(node), *node.outputs) if last.get(value, index) == index}
        live -= sum(_bytes_of(value) for value in over if value not in kept)
    return peak


def _may_follow(model: ir.Model) -> bool:
    """Whether onnx may follow values to infer shapes, which would take long where ConstantOfShape makes many."""
    nodes = [node for node in model.graph if node.op_type == "ConstantOfShape"]
    constants = (ir.convenience.get_const_tensor(node.inputs[0]) for node in nodes if node.inputs[0] is not None)
    sizes = [size for value in model.graph.inputs if value.shape for size in value.shape if isinstance(size, int)]
    sizes += [int(size) for tensor in constants if tensor is not None for size in tensor.numpy().reshape(-1)]
    return not nodes or max(sizes, default=0) <= _FOLLOWED


def _reads(node: ir.Node) -> Iterable[ir.Value]:
    return (value for value in node.inputs if value is not None and value.const_value is None)


def _bytes_of(value: ir.Value) -> int:
    if value.shape is None or value.dtype is None or not value.shape.is_static():
        return 0
    return math.ceil(math.prod(value.shape.numpy()) * value.dtype.itemsize)
