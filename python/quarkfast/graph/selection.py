"""Which nodes and tensors a scheme means: names and patterns resolved against one model, once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

import onnx

from quarkfast.config import BiasKind, LayerRule, Scheme, TensorRule, TensorSpec, match_names
from quarkfast.deferred import ir
from quarkfast.errors import ConfigError, did_you_mean
from quarkfast.graph.access import is_constant, is_standard, name_of
from quarkfast.graph.notes import names_in_file, names_of, op_types_in_file, original_name, tensors_in_file
from quarkfast.graph.operators import NEVER_QUANTIZED
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.qparams import code_range

__all__ = ["Choices"]


class Choices:
    """What a scheme says about each node and tensor of a prepared model.

    Names are those of the file that the user has: a node that preparation renamed answers to its old name, and one that
    preparation folded away is no mistake.
    """

    def __init__(self, model: ir.Model, scheme: Scheme) -> None:
        """Resolves every name.

        Raises:
            ConfigError: If a pattern matches nothing, a tensor or an operator type does not exist, or there is no path
                between the ends of an excluded subgraph.
        """
        self._scheme = scheme
        self._nodes = tuple(nodes_of(model.graph))
        self._known = names_in_file(model) | {original_name(node) for node in self._nodes} | _names(self._nodes)
        self._types = {node.op_type for node in self._nodes} | op_types_in_file(model)
        self._check_types("op_types", scheme.op_types)
        self._check_types("extra_op_types", (each for each in scheme.extra_op_types if each != "*"))
        self._check_types("exclude_output_types", scheme.exclude_output_types, left_out=True)
        self._outputs = self._match(scheme.exclude_outputs, "exclude_outputs")
        self._check_types("exclude_op_types", scheme.exclude_op_types, left_out=True)
        single = [item for item in scheme.exclude if isinstance(item, str)]
        self._excluded = self._match(single, "exclude")
        for item in scheme.exclude:
            if not isinstance(item, str):
                self._excluded |= self._between(*item)
        self._excluded |= self._outside(scheme)
        self._included = self._match(scheme.include, "include") if scheme.include else None
        self._rules: dict[str, list[LayerRule]] = {}
        self._tensors: dict[str, TensorSpec] = {}
        self._results: set[str] = set()
        self._following: dict[str, str] = {}
        for rule in scheme.layers:
            self._apply(rule)
        self._apply_tensors(model)

    def objection(self, node: ir.Node) -> str:
        """Says why the user does not want `node` quantized; empty if he does."""
        name = name_of(node)
        if name in self._excluded or node.op_type in self._scheme.exclude_op_types:
            return "excluded"
        if self._included is not None and name not in self._included:
            return "not among the nodes to quantize"
        if self._scheme.op_types and node.op_type not in self._scheme.op_types and not self.is_extra(node):
            return "not among op_types"
        return ""

    def leaves_outputs(self, node: ir.Node) -> bool:
        """Whether what `node` computes gets no pair on its account."""
        return node.op_type in self._scheme.exclude_output_types or name_of(node) in self._outputs

    def is_extra(self, node: ir.Node) -> bool:
        """Whether the user wants `node` quantized even where the target has no rule for it."""
        extra = self._scheme.extra_op_types
        return node.op_type in extra or ("*" in extra and is_standard(node) and node.op_type not in NEVER_QUANTIZED)

    def activation(self, tensor: str) -> TensorSpec:
        """Returns the spec of an activation."""
        return self._tensors.get(tensor, self._scheme.activation)

    def is_changed(self, tensor: str) -> bool:
        """Whether an activation has a spec of its own."""
        return tensor in self._tensors or tensor in self.fixed

    def is_own_result(self, tensor: str) -> bool:
        """Whether a tensor has a spec of its own by its name, or as what a layer computes."""
        return tensor in self._results

    def inherit(self, tensor: str, following: str) -> None:
        """Gives `following`, which stands for `tensor` from here on, its spec."""
        self._following[tensor] = following
        if tensor in self._tensors:
            self._tensors.setdefault(following, self._tensors[tensor])

    def idle(self, placed: Collection[str]) -> tuple[str, ...]:
        """Returns the tensors with a rule that asks for something, and that neither are `placed` nor stand for one."""
        found = []
        for rule in filter(TensorRule.to_plain, self._scheme.tensors):
            name = rule.tensor
            while name not in placed and name in self._following:
                name = self._following[name]
            if name not in placed:
                found.append(rule.tensor)
        return tuple(found)

    def weight(self, node: ir.Node, tensor: str) -> TensorSpec:
        """Returns the spec of a constant that `node` reads as a weight."""
        spec = self._scheme.weight
        for rule in self._rules.get(name_of(node), ()):
            spec = spec if rule.weight is None else rule.weight.apply(spec)
        return self.own(tensor, spec)

    def check_axis(self, node: ir.Node, tensor: str, axis: int | None, rank: int) -> None:
        """Makes sure that a constant has its channels along the axis that its rule says, if it says any.

        Raises:
            ConfigError: If it has not.
        """
        for rule in self._scheme.tensors:
            given = rule.axis if rule.tensor == tensor else None
            if given is None or (axis is not None and -rank <= given < rank and given % rank == axis):
                continue
            channels = (
                f", that of the output channels of {name_of(node)}" if axis is not None else ", for it has one scale"
            )
            raise ConfigError(f"tensors: {tensor}: expected {axis} as axis{channels}, got {given}")

    def check_bias(self, tensor: str) -> None:
        """Makes sure that no rule asks for anything of a bias that follows its layer.

        Raises:
            ConfigError: If there is one.
        """
        if any(rule.tensor == tensor and rule.to_plain() for rule in self._scheme.tensors):
            raise ConfigError(
                f"tensors: {tensor}: expected an activation or a weight, got a bias, which follows them; say what "
                "becomes of it in layers"
            )

    def moved(self, tensor: str) -> TensorSpec:
        """Returns the spec of a constant that is treated like an activation.

        Its values are known as those of a weight are, so it takes the method of weights where types are alike: a table
        that is both has one scale.
        """
        activation, weight = self._scheme.activation, self._scheme.weight
        if weight.granularity == "tensor" and replace(activation, method=weight.method) == weight:
            activation = weight
        return self.own(tensor, activation)

    def bias(self, node: ir.Node) -> BiasKind | None:
        """Returns what becomes of the bias of `node`."""
        kinds = [rule.bias for rule in self._rules.get(name_of(node), ()) if rule.bias is not None]
        return kinds[-1] if kinds else self._scheme.bias

    def own(self, tensor: str, spec: TensorSpec) -> TensorSpec:
        """Returns `spec` as the rules of a tensor change it."""
        for rule in self._scheme.tensors:
            if rule.tensor == tensor:
                spec = rule.change.apply(spec)
        return spec

    def _apply(self, rule: LayerRule) -> None:
        self._check_types("layers: op_types", rule.op_types)
        wanted = self._match(rule.nodes, "layers: nodes")
        for node in self._nodes:
            if name_of(node) not in wanted and node.op_type not in rule.op_types:
                continue
            self._rules.setdefault(name_of(node), []).append(rule)
            if rule.activation is not None:
                for value in node.inputs:
                    if value is not None and not is_constant(value):
                        self._tensors[name_of(value)] = rule.activation.apply(self._scheme.activation)
            if rule.output is not None:
                for value in node.outputs:
                    self._tensors[name_of(value)] = rule.output.apply(self._scheme.activation)
                    self._results.add(name_of(value))

    def _apply_tensors(self, model: ir.Model) -> None:
        present = ir.convenience.create_value_mapping(model.graph)
        known = set(present) | tensors_in_file(model)
        self.fixed: dict[str, tuple[float, float]] = {}
        for rule in self._scheme.tensors:
            if rule.tensor not in known:
                raise ConfigError(
                    f"tensors: expected the name of a tensor, got {rule.tensor!r}{did_you_mean(rule.tensor, known)}"
                )
            value = present.get(rule.tensor)
            spec = self.activation(rule.tensor) if value is None or not is_constant(value) else self._scheme.weight
            spec = rule.change.apply(spec)
            if not is_constant(value):
                if spec.granularity == "channel":
                    raise ConfigError(
                        f"tensors: {rule.tensor}: expected one scale for an activation, got one for each channel; "
                        "leave axis out"
                    )
                self._tensors[rule.tensor] = spec
                self._results.add(rule.tensor)
            if rule.range is not None:
                self.fixed[rule.tensor] = rule.range
            if rule.scale is not None:
                low, high = code_range(spec.dtype, symmetric=spec.symmetric, reduce_range=spec.reduce_range)
                self.fixed[rule.tensor] = (low - rule.zero_point) * rule.scale, (high - rule.zero_point) * rule.scale

    def _match(self, patterns: Iterable[str], where: str) -> frozenset[str]:
        found = match_names(tuple(patterns), self._known, where)
        return frozenset(name_of(node) for node in self._nodes if names_of(node) & found)

    def _check_types(self, where: str, names: Iterable[str], *, left_out: bool = False) -> None:
        """Makes sure that operator types are in the model; those of ONNX may be left out where there are none.

        Raises:
            ConfigError: If one is not.
        """
        for name in names:
            if name not in self._types and not (left_out and onnx.defs.has(name)):
                known = ", ".join(sorted(self._types))
                raise ConfigError(f"{where}: expected operator types of the model ({known}), got {name!r}")

    def _outside(self, scheme: Scheme) -> frozenset[str]:
        """Returns the nodes in front of the first ones to quantize, and those behind the last ones."""
        outside = set[ir.Node]()
        for patterns, where, near, far in (
            (scheme.input_nodes, "input_nodes", _readers, _producers),
            (scheme.output_nodes, "output_nodes", _producers, _readers),
        ):
            names = self._match(patterns, where)
            ends = [node for node in self._nodes if name_of(node) in names]
            outside |= _reach(ends, far) - _reach(ends, near)
        return frozenset(map(name_of, outside))

    def _between(self, starts: tuple[str, ...], ends: tuple[str, ...]) -> frozenset[str]:
        """Returns the nodes on a path from one of `starts` to one of `ends`, both of them included.

        A start or end is the name of a node, or of a tensor: then its readers are starts, or its producer is the end.
        """
        first = [node for name in starts for node in self._at(name, "start")]
        last = [node for name in ends for node in self._at(name, "end")]
        behind, before = _reach(first, _readers), _reach(last, _producers)
        path = {name_of(node) for node in behind & before}
        if not path:
            raise ConfigError(f"exclude: expected a path from {list(starts)} to {list(ends)}, got none")
        return frozenset(path)

    def _at(self, name: str, end: str) -> list[ir.Node]:
        named = [node for node in self._nodes if name in names_of(node)]
        if named:
            return named
        if end == "start":
            found = [node for node in self._nodes if any(name_of(value) == name for value in node.inputs)]
        else:
            found = [node for node in self._nodes if any(name_of(value) == name for value in node.outputs)]
        if not found and name in self._known:
            raise ConfigError(
                f"exclude: expected a node that preparation leaves as {end} of a subgraph, got {name!r}, which is part "
                "of another now; name a node or tensor beside it"
            )
        if not found:
            raise ConfigError(
                f"exclude: expected the name of a node or tensor as {end} of a subgraph, got {name!r}"
                f"{did_you_mean(name, self._known)}"
            )
        return found


def _names(nodes: Iterable[ir.Node]) -> set[str]:
    return {name_of(node) for node in nodes}


def _readers(node: ir.Node) -> Iterable[ir.Node]:
    return (reader for output in node.outputs for reader, _ in output.uses())


def _producers(node: ir.Node) -> Iterable[ir.Node]:
    return (found for value in node.inputs if value and (found := value.producer()))


def _reach(starts: Iterable[ir.Node], step: Callable[[ir.Node], Iterable[ir.Node]]) -> set[ir.Node]:
    found, pending = set[ir.Node](), list(starts)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending.extend(step(node))
    return found
