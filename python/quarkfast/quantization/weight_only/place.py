"""Which constants are stored in a narrower type while activations stay float."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from quarkfast.config import Scheme, TensorSpec
from quarkfast.deferred import ir
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import is_constant, is_standard, name_of, rank_of, shape_of
from quarkfast.graph.operators import find_operator
from quarkfast.graph.opset import check_pairs_run
from quarkfast.graph.placement import LeftFloat
from quarkfast.graph.recurrent import GATE_AXIS, RECURRENT_WEIGHTS, is_recurrent
from quarkfast.graph.selection import Choices
from quarkfast.graph.subgraphs import graphs_of, nodes_of
from quarkfast.quantization.steep_functions import STEEP, transforms_of_inputs

__all__ = ["Reader", "StoredWeight", "WeightPlacement", "place_weights"]

# Smaller constants keep their type: they hold no bytes worth saving, and bounds, scales and shapes are among them.
_SMALLEST = 256

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
_PRODUCTS = frozenset({"Gemm", "MatMul"})
_LAYERS = frozenset({"Conv", "ConvTranspose", *_PRODUCTS})


@dataclass(frozen=True, slots=True)
class Reader:
    """One input of one node."""

    node: ir.Node
    index: int


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
    """

    weights: list[StoredWeight] = field(default_factory=list)
    quantized: dict[str, str] = field(default_factory=dict)
    left_float: list[LeftFloat] = field(default_factory=list)

    def leave(self, node: ir.Node, reason: str) -> None:
        """Notes that `node` stays as it is."""
        self.left_float.append(LeftFloat(name_of(node), node.op_type, reason))

    def store(self, weight: StoredWeight, nodes: Iterable[ir.Node]) -> None:
        """Notes a weight and the nodes whose weight it is."""
        self.weights.append(weight)
        self.quantized.update((name_of(node), node.op_type) for node in nodes)


@dataclass(frozen=True, slots=True)
class _Use:
    node: ir.Node
    reader: Reader
    value: ir.Value
    axis: int | None
    spec: TensorSpec


def place_weights(model: ir.Model, scheme: Scheme) -> WeightPlacement:
    """Returns which constants of `model` are stored in the type of `scheme.weight`.

    1. Integer codes: constant weights of MatMul and Gemm, also where a Transpose stands in between; unless they are
       grouped, those of Conv and ConvTranspose, and W and R of GRU, LSTM and RNN, with a scale for each row of a gate;
       and in 8 bits, tables in which Gather looks rows up.
    2. 16-bit floats: every float32 constant of at least 256 elements, whatever nodes read it.
    3. A constant is stored once. Where layers read it along different axes the first decides; the others stay float.
    4. A table that is a layer's weight too is turned back as a whole.
    5. Constants of a transform of the inputs that a logarithm or a root reads stay (Fourier, constant-Q, mel;
       `quarkfast.quantization.steep_functions`).

    Raises:
        ConfigError: If the scheme names a node or an operator type that the model does not have.
        UnsupportedError: If no runtime has what turns weights back in the model's operator set.
    """
    choices = Choices(model, scheme)
    transforms = transforms_of_inputs(model.graph, choices.is_extra)

    def objection(node: ir.Node) -> str:
        return choices.objection(node) or (STEEP if node in transforms else "")

    if scheme.encoding == "cast":
        placement = _place_casts(model, scheme.weight, objection)
    else:
        placement = _place_codes(list(nodes_of(model.graph)), scheme, objection)
    if placement.weights and not scheme.own_operators:
        check_pairs_run(model)
    return placement


def _place_casts(model: ir.Model, spec: TensorSpec, objection: Callable[[ir.Node], str]) -> WeightPlacement:
    placement = WeightPlacement()
    for graph in graphs_of(model):
        for value in graph.initializers.values():
            if value.dtype != ir.DataType.FLOAT or _size(value) < _SMALLEST:
                continue
            uses = [Reader(node, index) for node, index in value.uses()]
            readers = tuple(use for use in uses if not objection(use.node))
            if readers:
                placement.store(StoredWeight(value, None, readers, spec), [use.node for use in readers])
            for use in uses:
                if use not in readers:
                    placement.leave(use.node, objection(use.node))
    return placement


def _place_codes(nodes: list[ir.Node], scheme: Scheme, objection: Callable[[ir.Node], str]) -> WeightPlacement:
    placement, uses = WeightPlacement(), dict[ir.Value, list[_Use]]()
    for node in nodes:
        found = _find_uses(node, scheme)
        reason = objection(node) or (found if isinstance(found, str) else "")
        if found and reason:
            placement.leave(node, reason)
        for use in () if reason or isinstance(found, str) else found:
            uses.setdefault(use.value, []).append(use)
    for value, each in uses.items():
        layers = [use for use in each if use.node.op_type != "Gather"]
        first = (layers or each)[0]
        same = [use for use in each if use.axis == first.axis or (layers and use not in layers)]
        # A Transpose that several products read is one reader.
        readers = tuple(dict.fromkeys(use.reader for use in same))
        stored = StoredWeight(value, first.axis, readers, first.spec, gathered=not layers)
        placement.store(stored, [use.node for use in same])
        for use in each:
            if use not in same:
                other = name_of(first.node)
                placement.leave(use.node, f"its weight {name_of(value)!r} is stored along the axis of {other!r}")
    return placement


def _find_uses(node: ir.Node, scheme: Scheme) -> list[_Use] | str:
    """Returns the weights of `node`, none if there is nothing to say; or why they stay float."""
    if is_recurrent(node):
        return _find_recurrent(node, scheme)
    found = _find_table(node, scheme) if node.op_type == "Gather" and is_standard(node) else _find_use(node, scheme)
    return found if isinstance(found, str) else [] if found is None else [found]


def _find_recurrent(node: ir.Node, scheme: Scheme) -> list[_Use] | str:
    """Returns the weights of the inputs and of the state, whose channels are the rows of all gates of a direction."""
    if reason := _why_no_groups(node, scheme):
        return reason
    axis, found = None if scheme.weight.granularity == "tensor" else GATE_AXIS, []
    for index in RECURRENT_WEIGHTS:
        value = node.inputs[index]
        if value is None:
            return "its weight is not constant"
        if reason := _why_unfit(value):
            return reason
        found.append(_Use(node, Reader(node, index), value, axis, scheme.weight))
    return found


def _why_unfit(value: ir.Value) -> str:
    """Returns why a weight cannot be stored as codes."""
    if not is_constant(value):
        return "its weight is not constant"
    if value.dtype not in _FLOATS:
        return f"its weight is {str(value.dtype).lower()}"
    if rank_of(value) < 2 or not _size(value):
        return f"its weight has the shape {list(value.shape or ())}"
    return ""


def _find_use(node: ir.Node, scheme: Scheme) -> _Use | str | None:
    operator = find_operator(node)
    if operator is None or node.op_type not in _LAYERS:
        large = any(is_constant(value) and value is not None and _is_large(value) for value in node.inputs)
        return f"weights of {node.op_type} are not stored as codes" if large else None
    reader, transposed = Reader(node, operator.weight), False
    value = node.inputs[operator.weight]
    producer = None if value is None else value.producer()
    if node.op_type == "MatMul" and producer is not None and _swaps(producer):
        reader, value, transposed = Reader(producer, 0), producer.inputs[0], True
    if value is None:
        return "its weight is not constant"
    if reason := _why_unfit(value):
        return reason
    rank = rank_of(value)
    channel = 0 if transposed else operator.channel_axis(node, rank)
    if reason := _why_no_groups(node, scheme):
        return reason
    if scheme.encoding == "nbits":
        return _why_no_nbits(node, rank) or _Use(node, Reader(node, operator.weight), value, 1 - channel, scheme.weight)
    if scheme.weight.granularity == "group":
        return _Use(node, reader, value, 1 - channel if rank == 2 else rank - 2, scheme.weight)
    return _Use(node, reader, value, None if scheme.weight.granularity == "tensor" else channel, scheme.weight)


def _find_table(node: ir.Node, scheme: Scheme) -> _Use | str | None:
    """Returns a table, which has a scale for each column where other weights have groups: rows are looked up alone."""
    value = node.inputs[0]
    if value is None or not is_constant(value) or not _is_large(value):
        return None
    if qtype(scheme.weight.dtype).bits != 8 or scheme.encoding == "nbits":
        return "onnxruntime looks up rows of 8-bit codes, not of fewer bits"
    if node.attributes.get_int("axis", 0) != 0 or rank_of(value) != 2:
        return "it does not look up rows of a table"
    spec = scheme.weight if scheme.weight.granularity == "tensor" else replace(scheme.weight, granularity="channel")
    return _Use(node, Reader(node, 0), value, None if spec.granularity == "tensor" else 1, spec)


def _why_no_groups(node: ir.Node, scheme: Scheme) -> str:
    """Returns why groups of weights have no place in `node`; empty where there are no groups."""
    if node.op_type in _PRODUCTS:
        return ""
    if scheme.encoding == "nbits":
        return f"MatMulNBits does not compute {node.op_type}"
    grouped = scheme.weight.granularity == "group"
    return f"groups lie along the sum of a product, which {node.op_type} has no axis for" if grouped else ""


def _why_no_nbits(node: ir.Node, rank: int) -> str:
    if rank != 2:
        return f"MatMulNBits takes a weight of 2 dimensions, not of {rank}"
    if node.op_type == "Gemm":
        plain = node.attributes.get_int("transA", 0) == 0
        for name in ("alpha", "beta"):
            plain = plain and node.attributes.get_float(name, 1.0) == 1.0
        return "" if plain else "MatMulNBits has no transA, alpha and beta"
    return ""


def _swaps(node: ir.Node) -> bool:
    """Whether `node` transposes a constant matrix."""
    value = node.inputs[0] if node.op_type == "Transpose" and is_standard(node) else None
    return is_constant(value) and rank_of(value) == 2 and list(node.attributes.get_ints("perm", [1, 0])) == [1, 0]


def _size(value: ir.Value) -> int:
    return 0 if value.const_value is None else math.prod(shape_of(value.const_value))


def _is_large(value: ir.Value) -> bool:
    return value.dtype in _FLOATS and rank_of(value) >= 2 and _size(value) >= _SMALLEST
