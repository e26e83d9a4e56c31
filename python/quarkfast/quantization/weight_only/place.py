"""Placement of stored weights: which constants get a narrower type while activations stay float."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from quarkfast.config import Scheme, TensorSpec
from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.opset import check_pairs_run
from quarkfast.graph.placement import LeftFloat
from quarkfast.graph.selection import Choices
from quarkfast.graph.subgraphs import graphs_of, nodes_of
from quarkfast.quantization.steep_functions import STEEP_REASON, transforms_of_inputs
from quarkfast.quantization.weight_only.uses import FormRules, Reader, Use, find_uses, saves_bytes

__all__ = ["StoredWeight", "WeightPlacement", "place_weights"]


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """A constant that is stored in a narrower type.

    Attributes:
        value: The initializer.
        axis: Axis of its channels or groups, or None for one scale or none.
        readers: The inputs that read the narrow form, each of which the constant reaches directly or transposed.
        spec: The narrow form: integer codes, or 16-bit floats.
        gathered: Whether rows of codes are looked up first and turned back afterwards.
    """

    value: ir.Value
    axis: int | None
    readers: tuple[Reader, ...]
    spec: TensorSpec
    gathered: bool = False

    @property
    def has_codes(self) -> bool:
        """Whether it is stored as integer codes."""
        return self.spec.format.is_integer


@dataclass(slots=True)
class WeightPlacement:
    """What the rules decide about a model.

    Attributes:
        weights: What is stored how, in the model's order.
        quantized: Names of the nodes that read it -> operator type.
        left_float: Nodes whose weights stay, and why.
        idle: Tensors with rules of their own that nothing comes of.
    """

    weights: list[StoredWeight] = field(default_factory=list)
    quantized: dict[str, str] = field(default_factory=dict)
    left_float: list[LeftFloat] = field(default_factory=list)
    idle: tuple[str, ...] = ()

    def leave(self, node: ir.Node, reason: str) -> None:
        """Notes that `node` stays as it is."""
        self.left_float.append(LeftFloat(name_of(node), node.op_type, reason))

    def store(self, weight: StoredWeight, nodes: Iterable[ir.Node]) -> None:
        """Notes a weight and the nodes whose weight it is."""
        self.weights.append(weight)
        self.quantized.update((name_of(node), node.op_type) for node in nodes)


def place_weights(model: ir.Model, scheme: Scheme) -> WeightPlacement:
    """Returns which constants of `model` are stored in the type of `scheme.weight`.

    1. Integer codes: constant weights of MatMul and Gemm, also where a Transpose stands in between; unless they are
       grouped, those of Conv and ConvTranspose, and W and R of GRU, LSTM and RNN, with a scale for each row of a gate;
       and in 8 bits, tables in which Gather looks rows up, where other weights have fewer unless the scheme is strict.
       Where rules of layers or tensors say so, 16-bit floats.
    2. 16-bit floats: every float32 constant of at least 256 elements, whatever nodes read it.
    3. A constant is stored once. Where layers read it along different axes, or in different forms, the first decides;
       the others stay float.
    4. A table that is a layer's weight too is turned back as a whole; it is stored for itself as well where the layer's
       has fewer than 8 bits, or lies as MatMulNBits reads it.
    5. Constants of a transform of the inputs that a logarithm or a root reads stay (Fourier, constant-Q, mel;
       `quarkfast.quantization.steep_functions`).

    Raises:
        ConfigError: If the scheme names a node or an operator type that the model does not have.
        UnsupportedError: If no runtime has what turns weights back in the model's operator set.
    """
    choices = Choices(model, scheme)
    transforms = transforms_of_inputs(model.graph, choices.is_extra)

    def objection(node: ir.Node) -> str:
        return choices.objection(node) or (STEEP_REASON if node in transforms else "")

    if scheme.encoding == "cast":
        placement = _place_casts(model, scheme.weight, objection)
    else:
        rules = FormRules(choices, packed=scheme.encoding == "nbits", strict=scheme.strict)
        placement = _place_codes(list(nodes_of(model.graph)), rules, objection)
    placement.idle = choices.idle({name_of(weight.value) for weight in placement.weights} | _left_float(scheme))
    if placement.weights and not scheme.own_operators:
        check_pairs_run(model)
    return placement


def _place_casts(model: ir.Model, spec: TensorSpec, objection: Callable[[ir.Node], str]) -> WeightPlacement:
    placement = WeightPlacement()
    for graph in graphs_of(model):
        for value in graph.initializers.values():
            if value.dtype != ir.DataType.FLOAT or not saves_bytes(value):
                continue
            uses = [Reader(node, index) for node, index in value.uses()]
            readers = tuple(use for use in uses if not objection(use.node))
            if readers:
                placement.store(StoredWeight(value, None, readers, spec), [use.node for use in readers])
            for use in uses:
                if use not in readers:
                    placement.leave(use.node, objection(use.node))
    return placement


def _left_float(scheme: Scheme) -> set[str]:
    """Returns the tensors that are to stay as they are."""
    return {rule.tensor for rule in scheme.tensors if rule.change.apply(scheme.weight).stays_float}


def _place_codes(nodes: list[ir.Node], rules: FormRules, objection: Callable[[ir.Node], str]) -> WeightPlacement:
    placement, uses = WeightPlacement(), dict[ir.Value, list[Use]]()
    for node in nodes:
        found = find_uses(node, rules)
        reason = objection(node) or (found if isinstance(found, str) else "")
        if found and reason:
            placement.leave(node, reason)
        for use in () if reason or isinstance(found, str) else found:
            uses.setdefault(use.value, []).append(use)
    for each in uses.values():
        tables = [use for use in each if use.node.op_type == "Gather"]
        layers = [use for use in each if use not in tables]
        if layers and not _has_rows(layers[0], rules):
            _store(placement, layers)
            _store(placement, tables)
        else:
            _store(placement, [*layers, *tables], turned_back=tables if layers else ())
    return placement


def _has_rows(layer: Use, rules: FormRules) -> bool:
    """Whether rows of what a layer multiplies by may be read: those of few bits, or in the layout of a product, not."""
    return not layer.spec.format.is_integer or (layer.spec.format.bits >= 8 and not rules.packed)


def _store(placement: WeightPlacement, uses: Sequence[Use], turned_back: Collection[Use] = ()) -> None:
    """Stores a constant in the form of the first that uses it, for those of the same form and for `turned_back`."""
    if not uses:
        return
    first = uses[0]
    same = [use for use in uses if use.form == first.form or use in turned_back]
    # A Transpose that several products read is one reader.
    readers = tuple(dict.fromkeys(use.reader for use in same))
    stored = StoredWeight(first.value, first.axis, readers, first.spec, gathered=first.node.op_type == "Gather")
    placement.store(stored, [use.node for use in same])
    for use in uses:
        if use not in same:
            how, weight = "along the axis" if use.axis != first.axis else "in the form", name_of(first.value)
            placement.leave(use.node, f"its weight {weight!r} is stored {how} of {name_of(first.node)!r}")
