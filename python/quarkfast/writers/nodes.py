"""Forms of quantizers as nodes, a pair or a single one: one row for each type and encoding, and our own operators."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from quarkfast.config import Scheme, Shares
from quarkfast.config.scheme import Spelling
from quarkfast.deferred import ir
from quarkfast.errors import UnsupportedError
from quarkfast.formats import find
from quarkfast.formats.block import BLOCK_FORMATS, BlockFormat, Rounding
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import name_of
from quarkfast.graph.builder import GraphBuilder
from quarkfast.graph.placement import Quantizer
from quarkfast.targets import Target

__all__ = [
    "OwnPairs",
    "PairOperators",
    "clip_node",
    "decode_block_node",
    "dequantize_nodes",
    "find_form",
    "lowest_opset",
    "quantize_nodes",
    "round_node",
    "spelling_of_constant",
]

_QUARK, _RUNTIME = "com.amd.quark", "com.microsoft"

# Bits of the integers that pairs of onnxruntime take in any operator set; those of 32 they turn back alone.
_CONTRIB_BITS = {"contrib": (8, 16), "contrib_bias": (16, 32)}


@dataclass(frozen=True, slots=True)
class PairOperators:
    """The operators that turn floats into codes and back.

    Attributes:
        domain: Their domain.
        quantize: Operator type, floats to codes; or floats to floats that the type can hold.
        dequantize: Operator type, codes to floats; None where one operator does both.
        opset: The oldest version of the standard operators that has them for this type.
        parameters: Whether they take scale and zero point.
        attributes: What else the operator takes.
    """

    domain: str
    quantize: str
    dequantize: str | None
    opset: int
    parameters: bool = True
    attributes: Mapping[str, int | str] = field(default_factory=dict)


_OLDEST = 11
_WIDE = 16  # bits
_HALF = 19  # QuantizeLinear takes float16

# Numbers of Quark's attribute; those of `quarkfast.kernels`.
_ROUNDING_MODES: Mapping[Rounding, int] = MappingProxyType({"half_away": 0, "half_up": 1, "half_even": 2})

# Attributes of Quark's operators that `DequantizeBlock` takes as well.
_PACKED = frozenset({"bit_width", "block_size", "sub_block_size", "sub_block_shift_bits", "element_dtype"})


def find_form(dtype: str, spelling: Spelling) -> PairOperators:
    """Returns how `dtype` is spelled; what has no Cast, is no bias or not in onnxruntime is spelled as ``"qdq"``."""
    row = find(dtype)
    if row.is_integer and row.bits in _CONTRIB_BITS.get(spelling, ()):
        return PairOperators(_RUNTIME, "QuantizeLinear", "DequantizeLinear", _OLDEST)
    linear = row.dequantize_opset if spelling in ("bias", "contrib_bias") else row.linear_opset
    if linear is not None:
        return PairOperators("", "QuantizeLinear", "DequantizeLinear", linear)
    if row.cast_opset is not None and (spelling == "cast" or row.custom_opset is None):
        return PairOperators("", "Cast", "Cast", row.cast_opset, parameters=False)
    if row.custom_opset is None:
        raise UnsupportedError(f"format {dtype}: expected one that operators take, got one that none takes")
    if row.is_block:
        block = BLOCK_FORMATS[dtype]
        return PairOperators(
            _QUARK, block.operator, None, row.custom_opset, parameters=False, attributes=block.attributes
        )
    return PairOperators(_QUARK, "ExtendedQuantizeLinear", "ExtendedDequantizeLinear", row.custom_opset)


def spelling_of_constant(dtype: str, scheme: Scheme, opset: int = 0) -> Spelling:
    """Returns how the codes of a constant are spelled: as the scheme has it, or in onnxruntime's domain.

    That has a DequantizeLinear of 16 bits in any operator set, so that no model is converted for its weights alone.

    Args:
        dtype: Their type.
        scheme: Of the model.
        opset: The operator set that it is in; 0 for the oldest.
    """
    row = find(dtype)
    wide = row.is_integer and row.bits == _WIDE and find_form(dtype, scheme.spelling).opset > opset
    return "contrib" if wide and scheme.spelling == "qdq" else scheme.spelling


def lowest_opset(scheme: Scheme, target: Target, constants: Container[str] = ()) -> int:
    """Returns the oldest operator set that `target` takes and that carries `scheme`.

    That is 11, 13 for one scale a channel, 19 for float16 scales, 21 for activations in 16-bit integers. Operator set
    10 has QuantizeLinear, but no Round that onnxruntime could write where it makes the float bias behind a MatMul
    int32.

    Args:
        scheme: What is asked for.
        target: The device.
        constants: Tensors that are known to be constants, whatever the scheme has for them.

    Example:
        >>> from quarkfast.config import PRESETS
        >>> from quarkfast.targets import TARGETS
        >>> target = TARGETS[PRESETS["A8W8"].target]
        >>> lowest_opset(PRESETS["A8W8"], target), lowest_opset(PRESETS["A16W8"], target)
        (11, 21)
    """
    if scheme.encoding == "dynamic":
        return max(_OLDEST, target.lowest_opset)
    activations, weights = scheme.specs_of_activations(constants), scheme.specs_of_weights()
    forms = [(spec, find_form(spec.dtype, scheme.spelling)) for spec in activations]
    forms += [(spec, find_form(spec.dtype, spelling_of_constant(spec.dtype, scheme))) for spec in weights]
    channels = any(spec.granularity == "channel" and form.domain != _RUNTIME for spec, form in forms)
    narrow = (
        find_form("int16", "contrib_bias" if scheme.contrib_pairs else "bias").opset if scheme.bias == "int16" else 0
    )
    oldest = 13 if channels else _OLDEST
    oldest = _HALF if scheme.float16_scales and not scheme.contrib_pairs else oldest
    return max(target.lowest_opset, oldest, narrow, *(form.opset for _, form in forms))


def quantize_nodes(
    value: ir.Value, parameters: tuple[ir.Value, ...], quantizer: Quantizer, spelling: Spelling
) -> tuple[ir.Node, ...]:
    """Returns the nodes that turn the floats of `value` into codes, in order.

    Args:
        value: What to quantize.
        parameters: Scale and zero point; for Casts, the scale if there is one.
        quantizer: Type and axis.
        spelling: Which operators.
    """
    form = find_form(quantizer.dtype, spelling)
    dtype = ir.DataType(qtype(quantizer.dtype).onnx)
    scaling: tuple[ir.Node, ...] = ()
    if not form.parameters and parameters:
        scaling, parameters = (_scaled("Div", value, parameters[0]),), ()
        value = scaling[0].outputs[0]
    node = _node(form, form.quantize, value, parameters, quantizer, dtype)
    node.outputs[0].dtype = dtype
    return (*scaling, node)


def dequantize_nodes(
    value: ir.Value, parameters: tuple[ir.Value, ...], quantizer: Quantizer, spelling: Spelling
) -> tuple[ir.Node, ...]:
    """Returns the nodes that turn the codes of `value` back into floats; arguments as of :func:`quantize_nodes`."""
    form = find_form(quantizer.dtype, spelling)
    given = parameters if form.parameters else ()
    node = _node(form, form.dequantize or form.quantize, value, given, quantizer, ir.DataType.FLOAT)
    node.outputs[0].dtype = ir.DataType.FLOAT
    return (node,) if form.parameters or not parameters else (node, _scaled("Mul", node.outputs[0], parameters[0]))


def clip_node(value: ir.Value, low: ir.Value, high: ir.Value) -> ir.Node:
    """Returns a node that limits `value`."""
    node = ir.node("Clip", [value, low, high])
    node.outputs[0].shape, node.outputs[0].dtype = value.shape, ir.DataType.FLOAT
    return node


def _scaled(op_type: str, value: ir.Value, scale: ir.Value) -> ir.Node:
    node = ir.node(op_type, [value, scale])
    node.outputs[0].shape, node.outputs[0].dtype = value.shape, ir.DataType.FLOAT
    return node


def round_node(value: ir.Value, dtype: str, axis: int, rounding: Rounding) -> ir.Node:
    """Returns a node that rounds `value` to a block format along `axis`."""
    form = find_form(dtype, "qdq")
    attributes = {**form.attributes, "axis": axis, "rounding_mode": _ROUNDING_MODES[rounding]}
    node = ir.node(form.quantize, [value], attributes, domain=form.domain)
    node.outputs[0].shape, node.outputs[0].dtype = value.shape, ir.DataType.FLOAT
    return node


def decode_block_node(
    records: ir.Value, like: ir.Value, row: BlockFormat, shape: tuple[int, ...], axis: int
) -> ir.Node:
    """Returns a node that turns packed `records` back into float32, the type of `like`, of shape `shape`."""
    shown = {key: value for key, value in row.attributes.items() if key in _PACKED}
    attributes = {"format": row.family, "length": shape[axis], "axis": axis, **shown}
    node = ir.node("DequantizeBlock", [records, like], attributes, domain="quarkfast")
    node.outputs[0].shape, node.outputs[0].dtype = ir.Shape(shape), ir.DataType.FLOAT
    return node


def _node(
    form: PairOperators,
    op_type: str,
    value: ir.Value,
    parameters: tuple[ir.Value, ...],
    quantizer: Quantizer,
    to: ir.DataType,
) -> ir.Node:
    attributes: dict[str, int] = {}
    if not form.parameters:
        attributes["to"] = int(to)
    elif quantizer.axis is not None:
        attributes["axis"] = quantizer.axis
    node = ir.node(op_type, [value, *parameters], attributes, domain=form.domain)
    node.outputs[0].shape = value.shape
    return node


class OwnPairs:
    """Chains of nodes that lead from floats or codes to what readers take, copied for all readers but the first.

    The copies compute the same, from the same scales and zero points.
    """

    def __init__(self, builder: GraphBuilder, graph: ir.Graph, shares: Shares) -> None:
        """Takes what names nodes, the graph that gets the copies, and what readers share."""
        self._builder = builder
        self._graph = graph
        self._shares = shares
        self._chains: list[tuple[Sequence[ir.Node], int]] = []

    def add(self, nodes: Sequence[ir.Node], quantizing: int) -> None:
        """Adds a chain, whose first `quantizing` nodes lead to codes."""
        if self._shares != "pair":
            self._chains.append((nodes, quantizing if self._shares == "codes" else 0))

    def write(self) -> None:
        """Copies the chains. What is handed out as a graph output stays with the first."""
        for nodes, shared in self._chains:
            result = nodes[-1].outputs[0]
            uses = tuple(result.uses())
            for reader, index in uses if result.is_graph_output() else uses[1:]:
                copies = self._copy(nodes[shared:])
                self._graph.insert_after(nodes[-1], copies)
                reader.replace_input_with(index, copies[-1].outputs[0])

    def _copy(self, nodes: Sequence[ir.Node]) -> list[ir.Node]:
        made: dict[ir.Value | None, ir.Value] = {}
        copies = []
        for node in nodes:
            inputs = [made.get(value, value) for value in node.inputs]
            copy = ir.Node(node.domain, node.op_type, inputs, node.attributes.values(), num_outputs=1)
            copies.append(self._builder.call(copy, name_of(node)))
            old, new = node.outputs[0], copy.outputs[0]
            new.type, new.shape = old.type, old.shape
            made[old] = new
        return copies
