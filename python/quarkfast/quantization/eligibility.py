"""Eligibility: which nodes of a graph may be quantized, why the others stay float, and what moves values to these."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.access import array_of, is_constant, is_untyped, name_of, range_of
from quarkfast.graph.operators import find_operator
from quarkfast.graph.schemas import key_of
from quarkfast.graph.selection import Choices
from quarkfast.quantization.float_rules import FloatNodes
from quarkfast.targets import Target
from quarkfast.targets.rules import Flow, Rule

__all__ = ["Eligibility", "count_infinities", "infinite_weights", "moves_to_floats"]


def count_infinities(value: ir.Value | None) -> int:
    """Returns how many infinities a constant holds; none if it is not one."""
    if not is_constant(value):
        return 0
    found = range_of(value)
    return found.pos_inf + found.neg_inf


def infinite_weights(value: ir.Value | None, infinite: int) -> ModelError:
    """Returns the error about a weight that holds so many infinities."""
    found = f"infinity in {infinite} of {array_of(value).size} values"
    return ModelError(f"tensor {name_of(value)!r}: expected finite weights, got {found}")


_UNTYPED = "the type of {name!r} is not known: onnx does not infer it, and onnxruntime does not tell it"
_NO_RULE = Rule()
_EXTRA = Rule()


class Eligibility:
    """What a target, the user and the fallback rules say about single nodes, wherever in the graph they stand."""

    def __init__(
        self, target: Target, choices: Choices, float_nodes: FloatNodes, floats: frozenset[ir.DataType]
    ) -> None:
        """Takes the rules of `target`, what the scheme says, and the types that count as data to quantize."""
        self._target = target
        self._choices = choices
        self._float_nodes = float_nodes
        self._floats = floats
        self._objections: dict[ir.Node, str] = {}  # a node is asked about by those in front of it too

    def rule(self, node: ir.Node) -> Rule:
        """Returns the rule of the target for a node; else one for all floats if the user wants it, or an empty one."""
        row = self._target.rules.get(key_of(node))
        return row or (_EXTRA if self._choices.is_extra(node) else _NO_RULE)

    def is_float(self, value: ir.Value | None) -> bool:
        """Whether a tensor holds data to quantize."""
        return value is not None and value.dtype in self._floats

    def data_inputs(self, node: ir.Node) -> tuple[int, ...]:
        """Returns the indices of the inputs that hold data and are given."""
        rule = self.rule(node)
        if rule.inputs is None:
            return tuple(index for index, value in enumerate(node.inputs) if self.is_float(value))
        return tuple(index for index in rule.inputs if index < len(node.inputs) and node.inputs[index] is not None)

    def objection(self, node: ir.Node) -> str:
        """Returns why a node stays float wherever it stands; empty if it does not.

        Raises:
            ModelError: If the weight or bias of a layer holds an infinity.
        """
        if node not in self._objections:
            self._objections[node] = self._find_objection(node)
        return self._objections[node]

    def _find_objection(self, node: ir.Node) -> str:
        rule = self.rule(node)
        if rule is _NO_RULE:
            return f"{self._target.name} has no rule for {key_of(node)}"
        if objection := self._choices.objection(node):
            return objection
        if objection := self._float_nodes.objection(node):
            return objection
        data = self.data_inputs(node)
        if not data or not all(self.is_float(node.inputs[index]) for index in data):
            untyped = next((name_of(value) for value in node.inputs if value is not None and is_untyped(value)), "")
            return _UNTYPED.format(name=untyped) if untyped else "its data is not float32"
        operator = find_operator(node)
        for index in data:
            if infinite := count_infinities(node.inputs[index]):
                if operator is not None and index in (operator.weight, operator.bias):
                    raise infinite_weights(node.inputs[index], infinite)
                return f"its constant {name_of(node.inputs[index])!r} is infinite"
        return rule.objection(node)


def moves_to_floats(value: ir.Value, choices: Choices, nodes: Eligibility) -> set[ir.Node] | None:
    """Returns what moves a tensor on to float nodes, or None where codes or an output of the model are behind.

    Args:
        value: The tensor.
        choices: What the scheme says; a tensor that has a spec of its own may get codes.
        nodes: Which nodes stay float.
    """
    moves, pending = set[ir.Node](), [value]
    while pending:
        each = pending.pop()
        if each.is_graph_output() or choices.is_changed(name_of(each)):
            return None
        for node, index in each.uses():
            if nodes.objection(node) or node in moves:
                continue
            if nodes.rule(node).flow is not Flow.PASS_THROUGH or index != 0:
                return None
            moves.add(node)
            pending.extend(node.outputs)
    return moves
