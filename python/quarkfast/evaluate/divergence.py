"""Whether a quantized model computes the same in a default session as with exact sums, and where it begins not to.

With exact sums every node runs as it stands: floats between a DequantizeLinear and the next QuantizeLinear. In a
default session integer kernels take the place of whole groups. A sum that lies between two codes may go to the other
one, and on processors without VNNI pairs of 8-bit products saturate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.partial_model import Feed

__all__ = ["Divergence", "compare"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """How far a default session and exact sums lie apart.

    Attributes:
        largest: Largest absolute difference of an output.
        output: Name of that output.
        sqnr: Ratio of its values to the differences in dB, infinite where there are none.
        first: The first node whose quantized output differs, or None where all are equal or none is quantized.
        first_sqnr: The ratio there in dB, infinite where `first` is None.
    """

    largest: float
    output: str
    sqnr: float
    first: str | None = None
    first_sqnr: float = float("inf")

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON, which has no infinity: None stands for it."""
        infinite = (float("inf"), float("-inf"))
        return {name: None if value in infinite else value for name, value in asdict(self).items()}

    def __str__(self) -> str:
        if not self.largest:
            return "equal outputs"
        text = f"output {self.output!r} differs by up to {self.largest:.3g} ({self.sqnr:.1f} dB)"
        return text if self.first is None else f"{text}, first at {self.first!r} ({self.first_sqnr:.1f} dB)"


def compare(model: onnx.ModelProto, feeds: Sequence[Feed], folder: Path | None = None) -> Divergence:
    """Runs a model in a default session, with all optimizations, and with exact sums.

    To find the first node, the model is run again with one dequantized activation more among its outputs, from the
    first on: all at once would keep ONNX Runtime from using some of the integer kernels that it uses.

    Args:
        model: A quantized model; above 2 GiB its constants are in files.
        feeds: Arrays by the names of its inputs, at least one.
        folder: Where these files are.

    Raises:
        ModelError: ONNX Runtime does not take the model or a feed.
        UnsupportedError: onnxruntime before 1.21 wants a file in `folder`, which cannot be written.
    """
    names = [output.name for output in model.graph.output]
    found = _gaps(model, feeds, folder)
    worst = max(names, key=lambda name: found[name].largest)
    result = Divergence(found[worst].largest, worst, found[worst].sqnr)
    if not result.largest:
        return result
    for name, node in _dequantized(model.graph).items():
        gap = found[name] if name in names else _gaps(_with_output(model, name), feeds, folder)[name]
        if gap.largest:
            return replace(result, first=node, first_sqnr=gap.sqnr)
    return result


@dataclass(slots=True)
class _Gap:
    """Sums over the difference of a tensor between two runs; values that are not finite count where just one is."""

    signal: float = 0.0
    noise: float = 0.0
    largest: float = 0.0

    def add(self, exact: NDArray[Any], default: NDArray[Any]) -> None:
        one, other = exact.astype(np.float64), default.astype(np.float64)
        differs = (one != other) & ~(np.isnan(one) & np.isnan(other))
        gap = np.abs(one[differs] - other[differs])
        self.signal += float(np.square(one[np.isfinite(one)]).sum())
        self.noise += float(np.square(gap).sum())
        self.largest = max(self.largest, float(np.nan_to_num(gap, nan=np.inf).max(initial=0)))

    @property
    def sqnr(self) -> float:
        if not self.noise:
            return float("inf")
        return float(10 * np.log10(self.signal / self.noise)) if self.signal else float("-inf")


def _gaps(model: onnx.ModelProto, feeds: Sequence[Feed], folder: Path | None) -> dict[str, _Gap]:
    """Returns the differences of every output over all feeds."""
    exact, default = exact_session(model, folder), ort.inference_session(model.SerializeToString(), folder=folder)
    found = {output.name: _Gap() for output in model.graph.output}
    for feed in feeds:
        for gap, one, other in zip(found.values(), ort.run(exact, feed), ort.run(default, feed), strict=True):
            if isinstance(one, np.ndarray) and one.dtype.kind in "biuf":  # else text, maps or several tensors
                gap.add(one, other)
    return found


def _dequantized(graph: onnx.GraphProto) -> dict[str, str]:
    """Returns the output of every DequantizeLinear of an activation -> the node that the codes come from, in order."""
    producers = {name: node for node in graph.node for name in node.output}
    found = {}
    for node in graph.node:
        encoder = producers.get(node.input[0]) if node.op_type.endswith("DequantizeLinear") else None
        if encoder is not None:
            found[node.output[0]] = _origin(encoder, producers)
    return found


def _origin(node: onnx.NodeProto, producers: Mapping[str, onnx.NodeProto]) -> str:
    """Returns the name of what computes the values that a QuantizeLinear reads; its own behind an input."""
    source = producers.get(node.input[0]) if node.op_type.endswith("QuantizeLinear") else None
    return (source or node).name


def _with_output(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    more = onnx.ModelProto()
    more.CopyFrom(model)
    more.graph.output.append(onnx.ValueInfoProto(name=name))
    return more
