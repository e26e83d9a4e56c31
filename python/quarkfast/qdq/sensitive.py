"""What eight bits and blocks cannot carry: nodes that stay float for the sake of accuracy."""

from __future__ import annotations

from collections.abc import Callable

from quarkfast.deferred import ir
from quarkfast.graph.access import holds_floats, is_constant, name_of, rank_of
from quarkfast.graph.functions import nodes_within_functions
from quarkfast.graph.operators import DEQUANTIZERS, QUANTIZERS

__all__ = ["Sensitive", "adds_bias"]

_NORMALIZATIONS = frozenset(
    {
        *("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization"),
        "SkipSimplifiedLayerNormalization",
    }
)
_ELEMENTWISE = frozenset({"Add", "Div", "Mul", "Sub", "Where"})


class Sensitive:
    """Why nodes stay float although the target has a rule for them.

    1. A part of a function that an exporter wrote out (`quarkfast.graph.functions`), whatever the type.

    And for integers of 8 bits and block formats, in a transformer:

    2. A layer normalization: a few channels of what it reads are tens of times larger than the others, which one scale
       for all, or for the block around them, reduces to a handful of levels, before they are normalized and matter
       again.
    3. The Softmax of an attention: scores that differ by less than a step change places, and a mask of -10000 takes
       every score of its block along.
    4. The sum that one of these reads (the residual stream, scores with their mask), and arithmetic with constants
       whose result nothing else reads.

    Matrix products, where the time goes, are quantized all the same.
    """

    def __init__(self, graph: ir.Graph, is_narrow: Callable[[str], bool]) -> None:
        """Marks the nodes of `graph`; `is_narrow` tells of a tensor whether it becomes 8-bit integers or blocks."""
        within = nodes_within_functions(graph)
        self._reasons = dict.fromkeys(within, "it is a part of a function that is computed in float")
        for node in reversed(graph):
            if node not in self._reasons and is_narrow(name_of(node.outputs[0])):
                reason = _reason(node, self._reasons)
                if reason:
                    self._reasons[node] = reason

    def objection(self, node: ir.Node) -> str:
        """Returns the reason, empty if there is none."""
        return self._reasons.get(node, "")


def adds_bias(node: ir.Node) -> int | None:
    """Returns which input of `node` is a bias, if it adds one to a matrix product with a constant; otherwise None."""
    if node.op_type != "Add" or node.domain not in ("", "ai.onnx"):
        return None
    for index, value in enumerate(node.inputs):
        other = node.inputs[1 - index]
        producer = None if other is None else other.producer()
        if producer is None or producer.op_type != "MatMul" or not is_constant(producer.inputs[1]):
            continue
        if is_constant(value) and rank_of(value) == 1 and len(producer.outputs[0].uses()) == 1:
            return index
    return None


def _reason(node: ir.Node, reasons: dict[ir.Node, str]) -> str:
    readers = {reader for output in node.outputs for reader, _ in output.uses()}
    if node.op_type in _NORMALIZATIONS:
        return "so few bits cannot carry what it normalizes"
    if node.op_type == "Softmax":
        return "so few bits cannot carry scores of attention" if any(_multiplies(each) for each in readers) else ""
    if node.op_type not in _ELEMENTWISE or node.outputs[0].is_graph_output():
        return ""
    sums = node.op_type == "Add" and adds_bias(node) is None and any(each in reasons for each in readers)
    data = [value for value in node.inputs if holds_floats(value) and not is_constant(value)]
    ends = len(data) == 1 and bool(readers) and all(each in reasons for each in readers)
    return "so few bits cannot carry its result to what reads it" if sums or ends else ""


def _multiplies(node: ir.Node) -> bool:
    """Whether `node` is a matrix product, or one reads it through nodes that a quantization has put in."""
    if node.op_type in QUANTIZERS | DEQUANTIZERS:
        return any(_multiplies(reader) for reader, _ in node.outputs[0].uses())
    return node.op_type == "MatMul"
