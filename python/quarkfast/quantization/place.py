"""From a prepared model and a scheme to a placement: the rules of a target applied node by node."""

from __future__ import annotations

from quarkfast.config import Scheme, TensorSpec, takes_int32_bias
from quarkfast.deferred import ir
from quarkfast.errors import ModelError
from quarkfast.graph.access import array_of, is_constant, name_of, rank_of
from quarkfast.graph.attention import adds_bias
from quarkfast.graph.block_axes import constant_axis
from quarkfast.graph.contrib import key_of
from quarkfast.graph.extremes import range_of
from quarkfast.graph.operators import DEQUANTIZERS, QUANTIZERS, Operator, find_operator
from quarkfast.graph.opset import check_pairs_run, opset_version
from quarkfast.graph.placement import BiasSlot, ConstantSlot, Edge, LeftFloat, Placement, Role
from quarkfast.graph.selection import Choices
from quarkfast.graph.subgraphs import bodies_of, nodes_of
from quarkfast.quantization.fallback_rules import Sensitive
from quarkfast.quantization.operand_quantization import Operands
from quarkfast.targets import Target
from quarkfast.targets.rules import Flow, Rule

__all__ = ["place", "place_graph"]

_FLOAT32 = frozenset({ir.DataType.FLOAT})

# A step decides what they give.
_COMPARISONS = frozenset(
    {"ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual"}
)


def place(model: ir.Model, scheme: Scheme, target: Target) -> Placement:
    """Returns where Q/DQ pairs go in `model`.

    1. A node is quantized if `target` has a rule for it, it is not excluded, and its data inputs are float32.
    2. Its data inputs and its outputs get a pair each; a constant input becomes a weight or a constant.
    3. An operator that carries its input's scale, or an activation, is quantized when its input is (always with
       `force_pass_through`).
    4. No pair stands between an operator and an activation that the target computes along with it.
    5. A tensor that has a pair already keeps it, so that quantizing twice is quantizing once.
    6. What lies in the body of an If, Loop or Scan stays float; so does what it reads from outside.
    7. A constant bias of a quantized layer gets the scale ``s_x * s_w``, or is treated as a weight. One that is added
       to a matrix product stays float, and no pair stands between the two.
    8. What `quarkfast.quantization.fallback_rules` lists stays float. It reads what another float node computed
       without a pair, and a matrix product that nothing else reads gets none. What stays float reads masks without
       a pair, and a comparison what no quantized node computed: rounding could move it to the other side.
    9. Where the target quantizes operands alone, outputs get no pair, unless the scheme gives one its own type, and all
       other readers of an operand read it as it was computed.

    Raises:
        ConfigError: If the scheme names a node, tensor or operator type that the model does not have.
        ModelError: If the weight of a layer holds an infinity.
        UnsupportedError: If no runtime has the pairs of the model's operator set, or the target does not take that.
    """
    placement = place_graph(model.graph, scheme, target, Choices(model, scheme))
    if placement.quantized:
        target.check_opset(opset_version(model))
    if placement.quantized and not scheme.own_operators:
        check_pairs_run(model)
    return placement


def place_graph(
    graph: ir.Graph, scheme: Scheme, target: Target, choices: Choices, floats: frozenset[ir.DataType] = _FLOAT32
) -> Placement:
    """Returns where pairs would go in one graph, by the rules of :func:`place`.

    Args:
        graph: The graph of a model, or a body.
        scheme: The specs.
        target: The rules.
        choices: What the scheme says about the nodes and tensors of the model.
        floats: Types that count as data to quantize.

    Raises:
        ModelError: If the weight of a layer holds an infinity.
    """
    sensitive = Sensitive(graph, choices.activation)
    placer = _Placer(scheme, target, choices, floats, sensitive)
    for node in graph:
        placer.visit(node)
        placer.leave_bodies(node)
    return placer.placement()


class _Placer:
    """Walks over the nodes once, in topological order, and gathers what a `Placement` holds."""

    def __init__(
        self,
        scheme: Scheme,
        target: Target,
        choices: Choices,
        floats: frozenset[ir.DataType],
        sensitive: Sensitive,
    ) -> None:
        self._scheme = scheme
        self._choices = choices
        self._floats = floats
        self._sensitive = sensitive
        self._target = target
        self._activations: dict[str, str] = {}
        self._absorbed: set[str] = set()
        self._fixed: dict[str, tuple[float, float]] = {}
        self._bounds: dict[str, tuple[float, float]] = {}
        self._constants: dict[tuple[str, Role, int | None, TensorSpec], list[Edge]] = {}
        self._biases: list[BiasSlot] = []
        self._quantized: dict[str, str] = {}
        self._left_float: list[LeftFloat] = []
        self._float_edges: set[Edge] = set()
        self._operands = Operands()
        self._results: set[str] = set()

    def placement(self) -> Placement:
        slots = tuple(
            ConstantSlot(tensor, role, axis, tuple(edges), spec)
            for (tensor, role, axis, spec), edges in self._constants.items()
        )
        roots = dict.fromkeys(self._activations.values())
        specs = {root: self._choices.activation(root) for root in roots}
        biases, left = tuple(self._biases), tuple(self._left_float)
        fixed = self._fixed | self._choices.fixed
        edges = self._float_edges | self._mask_edges()
        outputs = frozenset(name_of(value) for value in self._sensitive.masked if value.is_graph_output())
        if self._target.operands_only:
            edges = edges | self._operands.float_edges(self._results)
            outputs = outputs | self._operands.float_outputs(self._results)
        return Placement(
            self._activations,
            fixed,
            self._bounds,
            slots,
            biases,
            self._quantized,
            left,
            specs,
            frozenset(edges),
            outputs,
        )

    def visit(self, node: ir.Node) -> None:
        rule = self._rule(node)
        reason = self._why_not_selected(node, rule) or self._why_not_reached(node, rule)
        if reason:
            self._see_as_computed(node)
            if any(self._is_float(value) for value in node.outputs):
                self._left_float.append(LeftFloat(name_of(node), node.op_type, reason))
                self._leave(node, rule)
            return
        self._quantized[name_of(node)] = node.op_type
        bias = adds_bias(node)
        for index in self._data_inputs(node, rule):
            if index != bias:
                self._mark_input(node, index, rule)
        self._mark_bias(node)
        for output in node.outputs:
            self._mark_output(node, output, rule)

    def _see_as_computed(self, node: ir.Node) -> None:
        """Notes that a comparison reads what no quantized node computed without a pair, which could change sides."""
        if node.op_type not in _COMPARISONS:
            return
        for index, value in enumerate(node.inputs):
            producer = None if value is None else value.producer()
            if producer is None or name_of(producer) not in self._quantized:
                self._float_edges.add(Edge(name_of(node), index))

    def _leave(self, node: ir.Node, rule: Rule) -> None:
        """Notes what is known of the outputs of a node that stays float, and who reads them as they are."""
        for output in node.outputs:
            if rule.output_range is not None:
                self._bounds[name_of(output)] = rule.output_range
            for reader, index in output.uses():
                if self._sensitive.objection(reader):
                    self._float_edges.add(Edge(name_of(reader), index))

    def _mask_edges(self) -> set[Edge]:
        """Returns the inputs that read a mask as it was computed: those of nodes that stay float."""
        uses = (use for value in self._sensitive.masks for use in value.uses())
        return {Edge(name_of(reader), index) for reader, index in uses if name_of(reader) not in self._quantized}

    def leave_bodies(self, node: ir.Node) -> None:
        """Notes that the nodes in bodies of `node` stay float."""
        for inner in (each for body in bodies_of(node) for each in nodes_of(body)):
            if any(self._is_float(value) for value in inner.outputs):
                reason = f"it lies in a body of {node.op_type} {name_of(node)!r}"
                self._left_float.append(LeftFloat(name_of(inner), inner.op_type, reason))

    def _is_float(self, value: ir.Value | None) -> bool:
        return value is not None and value.dtype in self._floats

    def _data_inputs(self, node: ir.Node, rule: Rule) -> tuple[int, ...]:
        """Indices of the inputs that hold data and are given."""
        if rule.inputs is None:
            return tuple(index for index, value in enumerate(node.inputs) if self._is_float(value))
        return tuple(index for index in rule.inputs if index < len(node.inputs) and node.inputs[index] is not None)

    def _rule(self, node: ir.Node) -> Rule:
        return self._target.rules.get(key_of(node), _NO_RULE)

    def _why_not_selected(self, node: ir.Node, rule: Rule) -> str:
        """Says why the node would stay float wherever it stood; empty if it would not."""
        if rule is _NO_RULE:
            return f"{self._target.name} has no rule for {key_of(node)}"
        if objection := self._choices.objection(node):
            return objection
        if objection := self._sensitive.objection(node):
            return objection
        data = self._data_inputs(node, rule)
        if not data or not all(self._is_float(node.inputs[index]) for index in data):
            return "its data is not float32"
        operator = find_operator(node)
        for index in data:
            if infinite := _infinities(node.inputs[index]):
                if operator is not None and index in (operator.weight, operator.bias):
                    raise _infinite_weights(node.inputs[index], infinite)
                return f"its constant {name_of(node.inputs[index])!r} is infinite"
        return rule.objection(node)

    def _why_not_reached(self, node: ir.Node, rule: Rule) -> str:
        if rule.flow is Flow.COMPUTE or self._scheme.force_pass_through:
            return ""
        name = name_of(node.inputs[0])
        return "" if name in self._activations or name in self._absorbed else "its input is float"

    def _mark_input(self, node: ir.Node, index: int, rule: Rule) -> None:
        value, name = node.inputs[index], name_of(node.inputs[index])
        if name in self._absorbed or _is_decoded(value):
            return
        if not is_constant(value):
            if not self._target.dynamic:
                self._activations.setdefault(name, name)
                self._operands.add(node, index)
            return
        operator = find_operator(node)
        if operator is not None and operator.weight == index:
            role: Role = "weight"
        else:
            role = "activation" if rule.flow is Flow.PASS_THROUGH else self._target.constants
        self._mark_constant(node, index, role)

    def _mark_constant(self, node: ir.Node, index: int, role: Role) -> None:
        name = name_of(node.inputs[index])
        spec = self._choices.weight(node, name) if role == "weight" else self._choices.moved(name)
        key = name, role, _axis(node, index, spec), spec
        self._constants.setdefault(key, []).append(Edge(name_of(node), index))

    def _mark_bias(self, node: ir.Node) -> None:
        operator = find_operator(node)
        if operator is None or operator.bias is None or operator.bias >= len(node.inputs):
            return
        bias, kind = node.inputs[operator.bias], self._choices.bias(node)
        if not is_constant(bias) or kind == "float":
            return
        if infinite := _infinities(bias):
            raise _infinite_weights(bias, infinite)
        edge = Edge(name_of(node), operator.bias)
        if kind == "weight":
            self._mark_constant(node, operator.bias, "weight")
        elif rank_of(bias) == 1 and not any(_is_decoded(node.inputs[index]) for index in (0, operator.weight)):
            weight = Edge(name_of(node), operator.weight)
            data, weight_tensor = name_of(node.inputs[0]), name_of(node.inputs[operator.weight])
            if not self._fits_int32(node, operator.weight) or not _covers_channels(node, operator):
                return
            self._biases.append(BiasSlot(name_of(bias), edge, data, weight, weight_tensor))

    def _fits_int32(self, node: ir.Node, weight: int) -> bool:
        """Whether both operands have types whose products a bias of int32 can be added to."""
        data, name = name_of(node.inputs[0]), name_of(node.inputs[weight])
        first = self._choices.activation(self._activations.get(data, data))
        constant = is_constant(node.inputs[weight])
        second = self._choices.weight(node, name) if constant else self._choices.activation(name)
        return takes_int32_bias(first, second)

    def _mark_output(self, node: ir.Node, output: ir.Value, rule: Rule) -> None:
        name = name_of(output)
        if not self._is_float(output) or _is_encoded(output) or self._target.dynamic:
            return
        if self._target.operands_only and not self._choices.is_own_result(name):
            return
        self._results.add(name)
        if self._is_product_for_floats(node, output):
            return
        if self._is_absorbed(node, output):
            self._absorbed.add(name)
            self._choices.hand_on(name, name_of(next(iter(output.uses()))[0].outputs[0]))
        elif rule.flow is Flow.PASS_THROUGH and rule.passes_through(node) and not self._choices.is_changed(name):
            source = name_of(node.inputs[0])
            self._activations[name] = self._activations.get(source, source)
        else:
            self._activations[name] = name
            if rule.output_range is not None:
                self._fixed[name] = rule.output_range

    def _is_product_for_floats(self, node: ir.Node, output: ir.Value) -> bool:
        """Whether a matrix product, or its sum with a bias, is read by nothing but nodes that stay float on purpose."""
        if output.is_graph_output() or not (node.op_type == "MatMul" or adds_bias(node) is not None):
            return False
        readers = [reader for reader, _ in output.uses()]
        return bool(readers) and all(self._sensitive.objection(reader) for reader in readers)

    def _is_absorbed(self, node: ir.Node, output: ir.Value) -> bool:
        uses = tuple(output.uses())
        if len(uses) != 1 or output.is_graph_output():
            return False
        reader, index = uses[0]
        if adds_bias(reader) == 1 - index:
            return not self._why_not_selected(reader, self._rule(reader))
        producers = self._target.fused.get(reader.op_type, frozenset())
        if index != 0 or reader.graph is not node.graph or node.op_type not in producers:
            return False
        return not self._why_not_selected(reader, self._rule(reader))


_NO_RULE = Rule()


def _axis(node: ir.Node, index: int, spec: TensorSpec) -> int | None:
    """Returns the axis of a constant's blocks, or that of the output channels of a weight with a scale for each.

    The channels of a table are what Gather picks: each word of an embedding has a scale.
    """
    if spec.is_block:
        return constant_axis(node, index)
    operator, rank = find_operator(node), rank_of(node.inputs[index])
    if spec.granularity != "channel" or rank < 2:
        return None
    if node.op_type == "Gather":
        return int(node.attributes.get_int("axis", 0)) % rank
    return None if operator is None or operator.weight != index else operator.channel_axis(node, rank)


def _covers_channels(node: ir.Node, operator: Operator) -> bool:
    """Whether a bias has a value for each output channel: that of a Gemm may be broadcast from a single one."""
    weight, bias = node.inputs[operator.weight], node.inputs[operator.bias or 0]
    if not is_constant(weight) or rank_of(weight) < 2:
        return True
    channels = array_of(weight).shape[operator.channel_axis(node, rank_of(weight))]
    return channels > 0 and bool(array_of(bias).size % channels == 0)


def _is_decoded(value: ir.Value | None) -> bool:
    """Whether `value` is quantized already: the model was, or its author wrote that pair."""
    producer = None if value is None else value.producer()
    return producer is not None and producer.op_type in DEQUANTIZERS


def _is_encoded(value: ir.Value) -> bool:
    uses = tuple(value.uses())
    return bool(uses) and all(reader.op_type in QUANTIZERS for reader, _ in uses) and not value.is_graph_output()


def _infinities(value: ir.Value | None) -> int:
    """Returns how many infinities a constant holds; none if it is not one."""
    if not is_constant(value):
        return 0
    found = range_of(value)
    return found.pos_inf + found.neg_inf


def _infinite_weights(value: ir.Value | None, infinite: int) -> ModelError:
    found = f"infinity in {infinite} of {array_of(value).size} values"
    return ModelError(f"tensor {name_of(value)!r}: expected finite weights, got {found}")
