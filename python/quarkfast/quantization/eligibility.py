"""Which nodes of a graph may be quantized, and why the others stay float."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import is_untyped, name_of
from quarkfast.graph.contrib import key_of
from quarkfast.graph.operators import find_operator
from quarkfast.graph.selection import Choices
from quarkfast.quantization.float_rules import FloatNodes
from quarkfast.quantization.infinite_constants import count_infinities, infinite_weights
from quarkfast.targets import Target
from quarkfast.targets.rules import Rule

__all__ = ["Eligibility"]

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
