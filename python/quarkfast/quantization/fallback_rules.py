"""Nodes that stay float although a target has a rule: what eight bits and blocks cannot carry, or no kernel takes."""

from __future__ import annotations

from collections.abc import Callable

from quarkfast.config import TensorSpec
from quarkfast.deferred import ir
from quarkfast.graph.access import holds_floats, is_constant, name_of
from quarkfast.graph.attention import Masks, adds_bias, find_masks, nodes_of_attention
from quarkfast.graph.functions import nodes_within_functions
from quarkfast.graph.guards import nodes_before_guards
from quarkfast.graph.kept_float import why_kept_float
from quarkfast.graph.operators import NORMALIZATIONS, RESIDUAL_STEPS, SUMMED_NORMALIZATIONS
from quarkfast.quantization.box_decoding import box_decoding
from quarkfast.quantization.computed_divisors import computed_divisors
from quarkfast.quantization.cubic_resizes import cubic_resizes
from quarkfast.quantization.recurrent_inputs import recurrent_inputs
from quarkfast.quantization.steep_functions import STEEP_REASON, steep_functions

__all__ = ["Sensitive"]

_ATTENTION = "so few bits cannot carry scores of attention"
_GUARDED = "it gives the NaN or -inf by which a guard finds rows that are masked as a whole"
_POSITIONS = "so few bits cannot carry positions on a grid"
_DIVISORS = "so few bits cannot carry what it divides by"
_RECURRENT = "so few bits cannot carry what it joins for a recurrent layer, which is float"


class Sensitive:
    """Why nodes stay float although the target has a rule for them.

    1. A part of a function that an exporter wrote out (`quarkfast.graph.functions`), whatever the type.

    And for integers of 8 bits and block formats, in a transformer:

    2. A layer normalization: a few channels of what it reads are tens of times larger than the others, which one scale
       for all, or for the block around them, reduces to a handful of levels, before they are normalized and matter
       again.
    3. The Softmax of an attention and what leads to it from the product of queries and keys: scores that differ by
       less than a step change places, and a mask of -10000 takes every score of its block along.
    4. The sum that one of these reads (the residual stream), and arithmetic with constants whose result nothing else
       reads.

    And for every type but bfloat16, which holds infinities and numbers as large as float32:

    5. What computes a mask that joins scores in front of a Softmax (`quarkfast.graph.attention`). Whatever else stays
       float reads it as it was computed, so that a row that is masked as a whole is found to be so.
    6. The sum of scores and a mask that is an output of the model.
    7. What a guard of rows that are masked as a whole looks at: no code is NaN or -inf (`quarkfast.graph.guards`).

    And for integers of 8 bits, in any model, and of any width where it resizes a constant:

    8. A cubic Resize (`quarkfast.quantization.cubic_resizes`). It reads what is computed in front of it without a pair.

    And for every type:

    9. Arithmetic in front of a logarithm or a root, but for bfloat16, and a transform of the inputs in front of it
       (`quarkfast.quantization.steep_functions`).

    And for integers of 8 bits and block formats, in any model:

    10. The decoding of boxes behind the last layers (`quarkfast.quantization.box_decoding`).

    And for integers of 8 bits, in any model:

    11. Divisions by what the model computes (`quarkfast.quantization.computed_divisors`).
    12. What is joined in front of a recurrent layer (`quarkfast.quantization.recurrent_inputs`).

    And whatever the type:

    13. What a rewrite has added to be computed in float (`quarkfast.graph.kept_float`).

    All other matrix products, where the time goes, are quantized all the same.
    """

    def __init__(
        self, graph: ir.Graph, spec_of: Callable[[str], TensorSpec], is_asked_for: Callable[[ir.Node], bool]
    ) -> None:
        """Marks the nodes of `graph`.

        Args:
            graph: The graph.
            spec_of: Returns the spec that a tensor would have.
            is_asked_for: Whether the user wants a node quantized for which the target may have no rule.
        """
        within, attention, masks = nodes_within_functions(graph), nodes_of_attention(graph), find_masks(graph)
        guarded = nodes_before_guards(graph)
        self._reasons = dict.fromkeys(within, "it is a part of a function that is computed in float")
        for node in reversed(graph):
            if node in self._reasons:
                continue
            spec, reason = spec_of(name_of(node.outputs[0])), ""
            if node in attention and any(_is_narrow(spec_of(name_of(each))) for each in _decisive(node)):
                reason = _ATTENTION
            elif _is_narrow(spec):
                reason = _reason(node, self._reasons)
            if not reason and not spec.format.float32_range:
                reason = _masks(node, masks) or (_GUARDED if node in guarded else "")
            if reason:
                self._reasons[node] = reason
        cubic = cubic_resizes(graph, spec_of)
        self.unrounded = frozenset(cubic)
        """What reads its data as it was computed."""
        self._reasons = cubic | self._reasons
        for node in steep_functions(graph, spec_of, is_asked_for):
            self._reasons.setdefault(node, STEEP_REASON)
        for node in box_decoding(graph):
            if _is_narrow(spec_of(name_of(node.outputs[0]))) and not is_asked_for(node):
                self._reasons.setdefault(node, _POSITIONS)
        integers = dict.fromkeys(computed_divisors(graph), _DIVISORS)
        integers |= dict.fromkeys(recurrent_inputs(graph), _RECURRENT)
        for node, reason in integers.items():
            spec = spec_of(name_of(node.outputs[0]))
            if _is_narrow(spec) and spec.format.is_integer and not is_asked_for(node):
                self._reasons.setdefault(node, reason)
        self.masks = frozenset(value for value in masks.values if not spec_of(name_of(value)).format.float32_range)
        """Masks and what they are computed from."""
        self.masked = frozenset(value for value in masks.sums if not spec_of(name_of(value)).format.float32_range)
        """Scores that masks have joined."""

    def objection(self, node: ir.Node) -> str:
        """Returns the reason, empty if there is none."""
        return self._reasons.get(node) or why_kept_float(node)


def _decisive(node: ir.Node) -> list[ir.Value]:
    """Returns the tensors of an attention whose few bits leave a node float; of a Softmax also the scores it reads."""
    scores = [value for value in node.inputs[:1] if value is not None and node.op_type == "Softmax"]
    return [node.outputs[0], *scores]


def _reason(node: ir.Node, reasons: dict[ir.Node, str]) -> str:
    readers = {reader for output in node.outputs for reader, _ in output.uses()}
    if node.op_type in NORMALIZATIONS | SUMMED_NORMALIZATIONS:
        return "so few bits cannot carry what it normalizes"
    if node.op_type not in RESIDUAL_STEPS or node.outputs[0].is_graph_output():
        return ""
    sums = node.op_type == "Add" and adds_bias(node) is None and any(each in reasons for each in readers)
    data = [value for value in node.inputs if holds_floats(value) and not is_constant(value)]
    ends = len(data) == 1 and bool(readers) and all(each in reasons for each in readers)
    return "so few bits cannot carry its result to what reads it" if sums or ends else ""


def _masks(node: ir.Node, masks: Masks) -> str:
    if node in masks.nodes:
        return "it computes a mask for a Softmax"
    shown = node.outputs[0] in masks.sums and node.outputs[0].is_graph_output()
    return "it masks scores that are an output of the model" if shown else ""


def _is_narrow(spec: TensorSpec) -> bool:
    """Whether activations of `spec` are blocks, or integers of 8 bits or fewer."""
    row = spec.format
    return row.is_block or (row.is_integer and row.bits <= 8)
