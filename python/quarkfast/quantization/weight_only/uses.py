"""Uses of weights: inputs of nodes that may be stored, in which form and along which axis."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from quarkfast.config import TensorSpec
from quarkfast.deferred import ir
from quarkfast.formats import wider_integer
from quarkfast.graph.access import is_constant, is_standard, name_of, rank_of, shape_of
from quarkfast.graph.operators import GATE_AXIS, LAYERS, RECURRENT_WEIGHTS, find_operator, is_recurrent
from quarkfast.graph.selection import Choices

__all__ = ["FormRules", "Reader", "Use", "find_uses", "reads_table", "saves_bytes"]

# Smaller constants keep their type: they hold no bytes worth saving, and bounds, scales and shapes are among them.
_SMALLEST = 256

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
_PRODUCTS = frozenset({"Gemm", "MatMul"})
_NOT_CONSTANT = "its weight is not constant"


@dataclass(frozen=True, slots=True)
class Reader:
    """One input of one node."""

    node: ir.Node
    index: int


@dataclass(frozen=True, slots=True)
class Use:
    """A weight as one node reads it.

    Attributes:
        node: That node.
        reader: The input that reads the constant itself: of the node, or of a Transpose in front of it.
        value: The constant.
        axis: Axis of its channels or groups, or None for one scale or none.
        spec: The form that it gets.
    """

    node: ir.Node
    reader: Reader
    value: ir.Value
    axis: int | None
    spec: TensorSpec

    @property
    def form(self) -> tuple[int | None, TensorSpec]:
        """What uses of one constant have to agree on."""
        return self.axis, self.spec


@dataclass(frozen=True, slots=True)
class FormRules:
    """What says in which form weights are stored.

    Attributes:
        choices: What the scheme says of nodes and tensors.
        packed: Whether products with codes become MatMulNBits.
        strict: Whether tables have as many bits as other weights, or stay as they are.
    """

    choices: Choices
    packed: bool
    strict: bool

    def of(self, node: ir.Node, value: ir.Value) -> TensorSpec | str:
        """Returns the form of a constant that `node` reads; or why it has none."""
        spec = self.choices.weight(node, name_of(value))
        if spec.stays_float:
            return "its weight is to stay as it is"
        if not spec.format.is_integer and value.dtype != ir.DataType.FLOAT:
            return f"its weight is {str(value.dtype).lower()}, which {spec.dtype} would take no bytes off"
        return spec

    def of_layer(self, node: ir.Node, value: ir.Value) -> TensorSpec | str:
        """Returns the form of a constant that `node` multiplies by; or why it has none."""
        spec = self.of(node, value)
        if isinstance(spec, str) or not spec.format.is_integer or node.op_type in _PRODUCTS:
            return spec
        if self.packed:
            return f"MatMulNBits does not compute {node.op_type}"
        if spec.granularity == "group":
            return f"groups lie along the sum of a product, which {node.op_type} has no axis for"
        return spec


def find_uses(node: ir.Node, rules: FormRules) -> list[Use] | str:
    """Returns the weights of `node`, none if there is nothing to say; or why they stay float."""
    if is_recurrent(node):
        return _find_recurrent(node, rules)
    if node.op_type == "Gather" and is_standard(node):
        found = _find_table(node, rules) if reads_table(node) else None
    else:
        found = _find_use(node, rules)
    return found if isinstance(found, str) else [] if found is None else [found]


def saves_bytes(value: ir.Value) -> bool:
    """Whether a constant has enough elements that their bytes count."""
    return _size(value) >= _SMALLEST


def reads_table(node: ir.Node) -> bool:
    """Whether `node` looks up what may be stored in a narrower type."""
    value = node.inputs[0] if node.op_type == "Gather" and is_standard(node) else None
    return value is not None and is_constant(value) and _is_large(value)


def _find_recurrent(node: ir.Node, rules: FormRules) -> list[Use] | str:
    """Returns the weights of the inputs and of the state, whose channels are the rows of all gates of a direction."""
    found = []
    for index in RECURRENT_WEIGHTS:
        value = node.inputs[index]
        if value is None:
            return _NOT_CONSTANT
        spec = rules.of_layer(node, value)
        if isinstance(spec, str):
            return spec
        if reason := _why_unfit(value):
            return reason
        found.append(Use(node, Reader(node, index), value, _channels(spec, GATE_AXIS), spec))
    return found


def _find_use(node: ir.Node, rules: FormRules) -> Use | str | None:
    operator = find_operator(node)
    if operator is None or node.op_type not in LAYERS:
        large = any(is_constant(value) and value is not None and _is_large(value) for value in node.inputs)
        return f"weights of {node.op_type} are not stored as codes" if large else None
    reader, transposed = Reader(node, operator.weight), False
    value = node.inputs[operator.weight]
    producer = None if value is None else value.producer()
    if node.op_type == "MatMul" and producer is not None and _swaps(producer):
        reader, value, transposed = Reader(producer, 0), producer.inputs[0], True
    if value is None:
        return _NOT_CONSTANT
    if reason := _why_unfit(value):
        return reason
    rank = rank_of(value)
    channel = 0 if transposed else operator.channel_axis(node, rank)
    spec = rules.of_layer(node, value)
    if isinstance(spec, str):
        return spec
    if rules.packed and spec.format.is_integer:
        return _why_no_nbits(node, rank) or Use(node, Reader(node, operator.weight), value, 1 - channel, spec)
    if spec.granularity == "group":
        return Use(node, reader, value, 1 - channel if rank == 2 else rank - 2, spec)
    return Use(node, reader, value, _channels(spec, channel), spec)


def _find_table(node: ir.Node, rules: FormRules) -> Use | str:
    """Returns a table, which has 8 bits where other weights have fewer, and a scale for each column in place of groups.

    Rows are looked up alone, and ONNX Runtime looks up none of fewer bits.
    """
    value = node.inputs[0]
    assert value is not None
    spec = rules.of(node, value)
    if isinstance(spec, str):
        return spec
    byte = wider_integer(spec.dtype, bits=8)
    if byte is not None and rules.strict:
        return "onnxruntime looks up rows of 8-bit codes, not of fewer bits"
    if node.attributes.get_int("axis", 0) != 0 or rank_of(value) != 2:
        return "it does not look up rows of a table"
    one = spec.granularity == "tensor"
    spec = replace(spec, dtype=byte or spec.dtype, granularity="tensor" if one else "channel")
    return Use(node, Reader(node, 0), value, _channels(spec, 1), spec)


def _channels(spec: TensorSpec, axis: int) -> int | None:
    """Returns the axis of the channels; None for one scale, and for none."""
    return None if spec.granularity == "tensor" else axis


def _why_unfit(value: ir.Value) -> str:
    """Returns why a weight cannot be stored."""
    if not is_constant(value):
        return _NOT_CONSTANT
    if value.dtype not in _FLOATS:
        return f"its weight is {str(value.dtype).lower()}"
    if rank_of(value) < 2 or not _size(value):
        return f"its weight has the shape {list(value.shape or ())}"
    return ""


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
