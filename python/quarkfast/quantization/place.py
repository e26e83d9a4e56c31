"""Placement: from a prepared model and a scheme to where pairs go, by the rules of a target, node by node."""

from __future__ import annotations

from dataclasses import replace

from quarkfast.config import Scheme, TensorSpec
from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, is_standard, is_untyped, name_of
from quarkfast.graph.attention import adds_bias
from quarkfast.graph.operators import DECIDERS, ELEMENTWISE, is_dequantized, is_quantized
from quarkfast.graph.opset import check_pairs_run, opset_version
from quarkfast.graph.placement import Edge, LeftFloat, Placement
from quarkfast.graph.selection import Choices
from quarkfast.graph.subgraphs import bodies_of, nodes_of
from quarkfast.graph.written_codes import quantized_before
from quarkfast.quantization.constant_slots import ConstantSlots, Operands
from quarkfast.quantization.eligibility import Eligibility, moves_to_floats
from quarkfast.quantization.float_rules import FloatNodes
from quarkfast.quantization.lookup_tables import LookupTables, find_tables, takes_tables
from quarkfast.targets import Target
from quarkfast.targets.rules import Flow, Rule

__all__ = ["place", "place_graph"]

_FLOAT32 = frozenset({ir.DataType.FLOAT})

# What joins constants with activations, element by element: eight bits for a shift of channels that differ cost more
# than sixteen for activations save. Of a word segmenter in A16W8 they leave 15 dB, and sixteen 39 dB.
_JOINING = frozenset({*ELEMENTWISE, "Concat", "LayerNormalization"})


def place(model: ir.Model, scheme: Scheme, target: Target) -> Placement:
    """Returns where Q/DQ pairs go in `model`.

    1. A node is quantized if `target` has a rule for it, it is not excluded, and its data inputs are float32.
    2. Its data inputs and its outputs get a pair each; a constant input becomes a weight or a constant. One that
       joins activations element by element has 16 bits where the result has, whatever weights have.
    3. An operator that carries its input's scale, or an activation, is quantized when its input is. With
       `force_pass_through` it always is, unless it moves what is float and no constant on to nothing but nodes that
       stay float (`strict` quantizes that too).
    4. No pair stands between an operator and an activation that the target computes along with it.
    5. A tensor that has a pair already keeps it, so that quantizing twice is quantizing once.
    6. What lies in the body of an If, Loop or Scan stays float; so does what it reads from outside.
    7. A constant bias of a quantized layer gets the scale ``s_x * s_w``, or is treated as a weight. One that is added
       to a matrix product stays float, and no pair stands between the two.
    8. What `quarkfast.quantization.float_rules` lists stays float. It reads what another float node computed
       without a pair, and a matrix product that nothing else reads gets none. What stays float reads masks without
       a pair, and a comparison or a Range what no quantized node computed: rounding could move it to the other side.
       A cubic Resize reads everything so.
    9. What a node computes whose outputs the scheme excludes gets no pair, unless a quantized node reads it.
    10. Where the target quantizes operands alone, outputs get no pair, unless the scheme gives one its own type, and
       all other readers of an operand read it as it was computed.
    11. Rows of an embedding table are looked up as codes that have a scale for each column, and get no pair on that
        account (`quarkfast.quantization.lookup_tables`).
    12. Of a model whose layers are all quantized already nothing is; of others these keep what they have.

    Raises:
        ConfigError: If the scheme names a node, tensor or operator type that the model does not have.
        ModelError: If the weight of a layer holds an infinity.
        UnsupportedError: If no runtime has the pairs of the model's operator set, or the target does not take that.
    """
    choices = Choices(model, scheme)
    before = quantized_before(model.graph)
    if before.whole:
        return Placement({}, {}, {}, (), (), {}, (), {}, frozenset(), before=before.layers)
    tables = takes_tables(model, scheme, target)
    placement = place_graph(model.graph, scheme, target, choices, tables=tables)
    placed = {*placement.activations, *(slot.tensor for slot in placement.constants)}
    placement = replace(placement, idle=choices.idle(placed), before=before.layers)
    if placement.quantized:
        target.check_opset(opset_version(model))
    if placement.quantized and not scheme.own_operators:
        check_pairs_run(model)
    return placement


def place_graph(
    graph: ir.Graph,
    scheme: Scheme,
    target: Target,
    choices: Choices,
    floats: frozenset[ir.DataType] = _FLOAT32,
    *,
    tables: bool = False,
) -> Placement:
    """Returns where pairs would go in one graph, by the rules of :func:`place`.

    Args:
        graph: The graph of a model, or a body.
        scheme: The specs.
        target: The rules.
        choices: What the scheme says about the nodes and tensors of the model.
        floats: Types that count as data to quantize.
        tables: Whether embedding tables have a form of their own.

    Raises:
        ModelError: If the weight of a layer holds an infinity.
    """
    float_nodes = FloatNodes(graph, choices.activation, choices.is_extra)
    nodes = Eligibility(target, choices, float_nodes, floats)
    found = find_tables(graph, scheme, choices, nodes) if tables else LookupTables()
    placer = _Placer(scheme, target, choices, nodes, float_nodes, found)
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
        nodes: Eligibility,
        float_nodes: FloatNodes,
        tables: LookupTables,
    ) -> None:
        self._scheme = scheme
        self._choices = choices
        self._nodes = nodes
        self._float_nodes = float_nodes
        self._tables = tables
        self._target = target
        self._activations: dict[str, str] = {}
        self._fused: set[str] = set()
        self._fixed: dict[str, tuple[float, float]] = {}
        self._bounds: dict[str, tuple[float, float]] = {}
        self._constants = ConstantSlots(choices, self._activations)
        self._quantized: dict[str, str] = {}
        self._left_float: list[LeftFloat] = []
        self._float_edges: set[Edge] = set()
        self._operands = Operands()
        self._results: set[str] = set()

    def placement(self) -> Placement:
        roots = dict.fromkeys(self._activations.values())
        specs = {root: self._choices.activation(root) for root in roots}
        fixed = self._fixed | self._choices.fixed
        edges = self._float_edges | self._mask_edges() | self._unrounded_edges()
        outputs = frozenset(name_of(value) for value in self._float_nodes.masked if value.is_graph_output())
        if self._target.operands_only:
            edges = edges | self._operands.float_edges(self._results)
            outputs = outputs | self._operands.float_outputs(self._results)
        return Placement(
            self._activations,
            fixed,
            self._bounds,
            self._constants.slots(),
            tuple(self._constants.biases),
            self._quantized,
            tuple(self._left_float),
            specs,
            frozenset(edges),
            outputs,
        )

    def visit(self, node: ir.Node) -> None:
        if node in self._tables.lookups:
            self._quantized[name_of(node)] = node.op_type
            self._constants.add_table(node)
            return
        rule = self._nodes.rule(node)
        reason = self._nodes.objection(node) or self._why_unreached(node, rule)
        if reason:
            self._decide_by_floats(node)
            if any(self._nodes.is_float(value) or is_untyped(value) for value in node.outputs):
                self._left_float.append(LeftFloat(name_of(node), node.op_type, reason))
                self._leave(node, rule)
            return
        self._quantized[name_of(node)] = node.op_type
        bias = adds_bias(node)
        for index in self._nodes.data_inputs(node):
            if index != bias:
                self._mark_input(node, index, rule)
        self._constants.add_bias(node)
        if not self._choices.leaves_outputs(node):
            for output in node.outputs:
                self._mark_output(node, output, rule)

    def _decide_by_floats(self, node: ir.Node) -> None:
        """Notes that a comparison or a Range reads what no quantized node computed without a pair."""
        if node.op_type not in DECIDERS:
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
                if self._float_nodes.objection(reader):
                    self._float_edges.add(Edge(name_of(reader), index))

    def _mask_edges(self) -> set[Edge]:
        """Returns the inputs that read a mask as it was computed: those of nodes that stay float."""
        uses = (use for value in self._float_nodes.masks for use in value.uses())
        return {Edge(name_of(reader), index) for reader, index in uses if name_of(reader) not in self._quantized}

    def _unrounded_edges(self) -> set[Edge]:
        return {Edge(name_of(node), 0) for node in self._float_nodes.unrounded}

    def leave_bodies(self, node: ir.Node) -> None:
        """Notes that the nodes in bodies of `node` stay float."""
        for inner in (each for body in bodies_of(node) for each in nodes_of(body)):
            if any(self._nodes.is_float(value) or is_untyped(value) for value in inner.outputs):
                reason = f"it lies in a body of {node.op_type} {name_of(node)!r}"
                self._left_float.append(LeftFloat(name_of(inner), inner.op_type, reason))

    def _why_unreached(self, node: ir.Node, rule: Rule) -> str:
        if node in self._tables.moves:
            return "its input is float"
        if rule.flow is Flow.COMPUTE or self._is_forced(node, rule):
            return ""
        name = name_of(node.inputs[0])
        return "" if name in self._activations or name in self._fused else "its input is float"

    def _is_forced(self, node: ir.Node, rule: Rule) -> bool:
        if not self._scheme.force_pass_through:
            return False
        if self._scheme.strict or self._choices.is_extra(node) or rule.flow is not Flow.PASS_THROUGH:
            return True
        return is_constant(node.inputs[0]) or any(
            moves_to_floats(value, self._choices, self._nodes) is None for value in node.outputs
        )

    def _mark_input(self, node: ir.Node, index: int, rule: Rule) -> None:
        value, name = node.inputs[index], name_of(node.inputs[index])
        if name in self._fused or is_dequantized(value):
            return
        if not is_constant(value):
            if not self._target.dynamic:
                self._activations.setdefault(name, name)
                self._operands.add(node, index)
            return
        passed_through = rule.flow is Flow.PASS_THROUGH
        wide = None if passed_through or rule.constants else self._wide_result(node)
        if wide is not None:
            self._constants.add_operand(node, index, wide)
            return
        role = "activation" if passed_through else rule.constants or self._target.constants
        self._constants.add_input(node, index, role)

    def _wide_result(self, node: ir.Node) -> TensorSpec | None:
        """Returns the spec of what `node` joins a constant to, where that has 16 bits and weights have fewer."""
        if self._scheme.strict or node.op_type not in _JOINING or not is_standard(node):
            return None
        spec, weight = self._choices.activation(name_of(node.outputs[0])), self._scheme.weight.format
        narrower = weight.is_integer and weight.bits < spec.format.bits
        return spec if narrower and spec.format.is_integer and spec.format.bits == 16 else None

    def _mark_output(self, node: ir.Node, output: ir.Value, rule: Rule) -> None:
        name = name_of(output)
        if not self._nodes.is_float(output) or is_quantized(output) or self._target.dynamic:
            return
        if self._target.operands_only and not self._choices.is_own_result(name):
            return
        self._results.add(name)
        if self._is_product_for_floats(node, output) or self._is_read_unrounded(output):
            return
        if self._is_fused(node, output):
            self._fused.add(name)
            self._choices.inherit(name, name_of(next(iter(output.uses()))[0].outputs[0]))
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
        return bool(readers) and all(self._float_nodes.objection(reader) for reader in readers)

    def _is_read_unrounded(self, output: ir.Value) -> bool:
        """Whether nothing reads `output` but what takes no pair in front of it."""
        readers = [reader for reader, _ in output.uses()]
        return bool(readers) and not output.is_graph_output() and self._float_nodes.unrounded.issuperset(readers)

    def _is_fused(self, node: ir.Node, output: ir.Value) -> bool:
        uses = tuple(output.uses())
        if len(uses) != 1 or output.is_graph_output():
            return False
        reader, index = uses[0]
        if adds_bias(reader) == 1 - index:
            return not self._nodes.objection(reader)
        if (node.op_type, reader.op_type) in self._scheme.fuse:
            return reader.graph is node.graph and not self._nodes.objection(reader)
        producers = self._target.fused.get(reader.op_type, frozenset())
        if (index != 0 and reader.op_type != "Add") or reader.graph is not node.graph or node.op_type not in producers:
            return False
        return not self._nodes.objection(reader)
