"""Affine folding: arithmetic with constants becomes part of the linear layer in front of it or behind it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quarkfast.config import POLICY, Policy
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_read_once, is_standard, name_of
from quarkfast.graph.affine import Affine, affine_of, data_index
from quarkfast.graph.affine_flows import parts_of_concat, pass_backward, pass_forward
from quarkfast.graph.builder import GraphBuilder, drop_unread, set_constant
from quarkfast.graph.functions import nodes_within_functions
from quarkfast.graph.linear_layers import BiasedLayer, LayerValues, layer_behind, layer_in_front, sum_of
from quarkfast.graph.operators import PASS_THROUGH
from quarkfast.graph.rewriting import absorb
from quarkfast.transforms.infer_types import infer_types

__all__ = ["fold_affine"]

Values = NDArray[np.float64]
Targets = list[tuple[BiasedLayer, Affine]]


def fold_affine(model: ir.Model, policy: Policy = POLICY) -> bool:
    """Folds Mul, Div, Add, Sub and Neg with constants into linear layers, in place; returns whether there was one.

    A step is one whose constant holds one number, or one for each channel. Steps that follow each other, the only
    readers of what they read, are one: ``y = factor * x + offset``.

    1. The Conv, ConvTranspose, Gemm or MatMul that computes ``x`` takes it: ``W' = factor * W``,
       ``b' = factor * b + offset``. Between the two may lie what moves values or keeps channels, a Concat of such
       layers included. Nothing else reads any of these tensors, and none is a graph output.
    2. Otherwise the layers that alone read ``y`` take it: ``W' = W * factor``, ``b' = b + W * offset``. No padding may
       lie in front of them if something is added; in that case they take the factor, and ``offset / factor`` is added.
       Where ``x`` is a graph input nothing is added later: an input in kelvin has no 8 bits to spare. Factors of
       channels that differ by more (`Policy.fold_ratio`) stay as well, which another tool may have balanced on purpose.
    3. Otherwise three steps or more become one Mul and one Add, and what multiplies by 1 and adds 0 goes.
    4. Weights that other nodes read too stay as they are; such a bias is copied. Parts of a function that is computed
       in float stay. What lies in bodies of If, Loop and Scan stays.
    5. Factors of zero, numbers that are not finite, and weights that would overflow float32 or vanish are left alone.

    A layer keeps its name, its weight keeps its name, its output takes that of the last step in front of which it was.
    Idempotent; graph inputs and outputs are kept. Error: numbers are multiplied and added up in float64 and rounded to
    float32 once, so that of one rounding of each weight and bias, and of sums in another order.
    """
    if not any(data_index(node) is not None for node in model.graph):
        return False
    infer_types(model)
    folding = _Folding(model, policy)
    changed = False
    while folding.sweep():
        changed = True
    folding.finish()
    return changed


class _Folding:
    """The weights and biases that have changed, in float64, while steps are folded."""

    def __init__(self, model: ir.Model, policy: Policy) -> None:
        self._builder = GraphBuilder(model)
        self._graph, self._policy = model.graph, policy
        self._exact: dict[ir.Value, Values] = {}
        self._within = nodes_within_functions(model.graph)

    def sweep(self) -> bool:
        """Folds every run of steps that can be; returns whether there was one."""
        changed = False
        for node in tuple(self._graph):
            run = self._run_from(node) if node.graph is self._graph else []
            if run:
                changed = self._fold(run) or changed
        return changed

    def finish(self) -> None:
        """Rounds what has changed."""
        for value, numbers in self._exact.items():
            set_constant(value, numbers.astype(np.float32))
        drop_unread(self._graph)

    def _run_from(self, first: ir.Node) -> list[ir.Node]:
        """Returns the steps from `first` on, if no other step comes before it, each the only reader of the last."""
        if not self._is_step(first):
            return []
        source = _data(first)
        before = source.producer()
        if before is not None and self._is_step(before) and _is_private(source, first):
            return []
        run = [first]
        while True:
            uses = tuple(run[-1].outputs[0].uses())
            reader = uses[0][0] if len(uses) == 1 else None
            if reader is None or not self._is_step(reader) or run[-1].outputs[0].is_graph_output():
                return run
            run.append(reader)

    def _is_step(self, node: ir.Node) -> bool:
        if node.graph is not self._graph or node in self._within or sum_of(node) is not None:
            return False
        return affine_of(node) is not None

    def _fold(self, run: list[ir.Node]) -> bool:
        total: Affine | None = Affine(np.ones(1), np.zeros(1))
        for node in run:
            step = affine_of(node)
            total = None if total is None or step is None else total.then(step)
        affine = total if total is not None and total.is_usable else None
        if affine is None:
            return False
        source, result = _data(run[0]), run[-1].outputs[0]
        if not affine.has_factor and not affine.has_offset:
            return self._remove(run, source if not result.is_graph_output() else result)
        targets = self._in_front(source, run[0], affine)
        if targets and self._take(targets, front=True):
            return self._remove(run, result)
        if not affine.has_offset or not _is_moved_input(source):
            targets = self._behind(result, affine)
            if targets and self._take(targets, front=False):
                return self._remove(run, source)
        return self._leave_sum(run, affine) or self._merge(run, affine)

    def _in_front(self, value: ir.Value, reader: ir.Node, affine: Affine) -> Targets | None:
        """Returns the layers that compute `value`, for `reader` alone, and their parts of a step; None if others do."""
        while True:
            producer = value.producer()
            if producer is None or producer.graph is not self._graph or not _is_private(value, reader):
                return None
            layer = layer_in_front(value)
            if layer is not None:
                return [(layer, affine)]
            if producer.op_type == "Concat" and is_standard(producer):
                return self._in_front_of_concat(producer, affine)
            before, source = pass_backward(producer, affine), producer.inputs[0] if producer.inputs else None
            if before is None or source is None:
                return None
            value, reader, affine = source, producer, before

    def _in_front_of_concat(self, concat: ir.Node, affine: Affine) -> Targets | None:
        found: Targets = []
        for value, part in zip(concat.inputs, parts_of_concat(concat, affine), strict=False):
            targets = None if value is None else self._in_front(value, concat, part)
            if targets is None:
                return None
            found += targets
        return found if len(found) >= len(concat.inputs) else None

    def _behind(self, value: ir.Value, affine: Affine) -> Targets | None:
        """Returns the layers that alone read `value`, and their parts of a step; None if anything else reads it."""
        found: Targets = []
        waiting = [(value, affine)]
        while waiting:
            value, affine = waiting.pop()
            factors = np.abs(affine.factor)
            if value.is_graph_output() or not value.uses() or factors.max() > self._policy.fold_ratio * factors.min():
                return None
            for reader, index in value.uses():
                layer = layer_behind(reader, index) if reader.graph is self._graph else None
                after = pass_forward(reader, affine) if layer is None and index == 0 else None
                if reader.graph is not self._graph or (layer is None and after is None):
                    return None
                if layer is not None:
                    found.append((layer, affine))
                elif after is not None:
                    waiting.append((reader.outputs[0], after))
        return found

    def _leave_sum(self, run: list[ir.Node], affine: Affine) -> bool:
        """Lets the layers behind take the factor alone, so that an Add stays of several steps."""
        sums = [node for node in run if node.op_type in ("Add", "Sub")]
        with np.errstate(over="ignore"):
            rest = Affine(np.ones(1), affine.offset / affine.factor, affine.axis)
        if not sums or not affine.has_factor or not _is_single(rest):
            return False
        alone = Affine(affine.factor, np.zeros(1), affine.axis if affine.factor.size > 1 else None)
        targets = self._behind(run[-1].outputs[0], alone)
        if not targets or not self._take(targets, front=False):
            return False
        self._rewrite(run, [(sums[0], "Add", rest.shaped(rest.offset))])
        return True

    def _merge(self, run: list[ir.Node], affine: Affine) -> bool:
        """Writes the steps as one Mul and one Add, or one of these, where they are more."""
        pieces = []
        for wanted, types, numbers in (
            ("Mul", ("Mul", "Div", "Neg"), affine.factor if affine.has_factor else None),
            ("Add", ("Add", "Sub"), affine.offset if affine.has_offset else None),
        ):
            node = next((node for node in run if node.op_type in types), None)
            if numbers is None:
                continue
            if node is None:
                return False
            pieces.append((node, wanted, affine.shaped(numbers)))
        if len(pieces) >= len(run) or not _is_single(affine):
            return False
        self._rewrite(run, pieces)
        return True

    def _rewrite(self, run: list[ir.Node], pieces: list[tuple[ir.Node, str, Values]]) -> None:
        """Leaves one or two nodes of `run`, with other constants."""
        value, result = _data(run[0]), run[-1].outputs[0]
        kept = [node for node, _, _ in pieces]
        ordered = [node for node in run if node in kept]
        for node, (_, op_type, numbers) in zip(ordered, pieces, strict=True):
            constant = self._builder.initializer(f"{name_of(result)}_{op_type.lower()}", numbers.astype(np.float32))
            node.op_type = op_type
            node.resize_inputs(2)
            node.replace_input_with(0, value)
            node.replace_input_with(1, constant)
            value = node.outputs[0]
        last = ordered[-1]
        for node in run[run.index(last) + 1 :]:
            absorb(self._graph, node, last)
        self._graph.remove([node for node in run if node not in kept and node.graph is not None], safe=True)

    def _take(self, targets: Targets, *, front: bool) -> bool:
        """Lets every layer take its part, or none."""
        changes = [
            (layer, layer.behind(affine, self._read) if front else layer.in_front(affine, self._read))
            for layer, affine in targets
        ]
        if any(change is None for _, change in changes):
            return False
        for layer, change in changes:
            if change is not None:
                self._apply(layer, change)
        return True

    def _read(self, value: ir.Value) -> Values:
        found = self._exact.get(value)
        return array_of(value).astype(np.float64) if found is None else found

    def _apply(self, layer: BiasedLayer, change: LayerValues) -> None:
        if change.weight is not None:
            self._exact[layer.weight] = change.weight
        if change.bias is None or (layer.bias is None and not change.bias.any()):
            return
        bias = layer.bias
        if bias is None or not is_read_once(bias):
            bias = self._builder.initializer(f"{name_of(layer.weight)}_bias", change.bias.astype(np.float32))
            layer.place_bias(self._builder, bias)
        layer.node.attributes.pop("beta", None)  # Gemm's of its bias, which has it now
        self._exact[bias] = change.bias

    def _remove(self, run: list[ir.Node], named: ir.Value) -> bool:
        """Takes the steps out; what they read stays, under the name of `named`. Returns whether that could be.

        What a node of another graph computes, or an input, cannot be an output under another name.
        """
        source, result = _data(run[0]), run[-1].outputs[0]
        producer = source.producer()
        if result.is_graph_output() and (producer is None or source.is_graph_output()):
            return False
        name, kind, shape = named.name, named.type, named.shape
        ir.convenience.replace_all_uses_with(result, source, replace_graph_outputs=True)
        self._graph.remove(run, safe=True)
        source.name, source.type, source.shape = name, kind, shape
        return True


def _data(node: ir.Node) -> ir.Value:
    index = data_index(node)
    value = None if index is None else node.inputs[index]
    assert value is not None  # asked of steps alone
    return value


def _is_private(value: ir.Value, reader: ir.Node) -> bool:
    """Whether `reader` alone reads `value`."""
    return is_read_once(value) and next(iter(value.uses()))[0] is reader


def _is_single(affine: Affine) -> bool:
    """Whether the numbers are finite in float32 as well."""
    return bool(max(np.abs(affine.factor).max(), np.abs(affine.offset).max()) <= np.finfo(np.float32).max)


def _is_moved_input(value: ir.Value) -> bool:
    """Whether `value` holds what an input of the graph does, at other places maybe."""
    while (producer := value.producer()) is not None:
        source = producer.inputs[0] if producer.inputs else None
        if producer.op_type not in PASS_THROUGH or source is None:
            return False
        value = source
    return value.is_graph_input()
