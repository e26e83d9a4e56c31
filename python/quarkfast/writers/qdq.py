"""The Q/DQ writer: pairs behind activations, DequantizeLinear behind stored codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.config import Scheme
from quarkfast.config.scheme import Spelling
from quarkfast.deferred import ir
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import is_standard, name_of, rank_of
from quarkfast.graph.block_axes import activation_axes
from quarkfast.graph.builder import GraphBuilder, drop_unread
from quarkfast.graph.opset import opset_version
from quarkfast.graph.placement import Edge, Quantizer
from quarkfast.graph.rewriting import splice
from quarkfast.graph.runtimes import runtime_notes
from quarkfast.quantization.block_codes import PackingTally
from quarkfast.quantization.codes import scale_along
from quarkfast.quantization.plan import Plan, QuantizedBlocks, QuantizedTensor
from quarkfast.targets import Target
from quarkfast.writers.dynamic import insert_dynamic
from quarkfast.writers.nodes import (
    OwnPairs,
    clip_node,
    decode_block_node,
    dequantize_nodes,
    find_form,
    quantize_nodes,
    round_node,
    spelling_of_constant,
)
from quarkfast.writers.runtime_forms import keep_floats, keep_signed, keep_sums

__all__ = ["insert"]


def insert(model: ir.Model, plan: Plan, scheme: Scheme, target: Target) -> tuple[str, ...]:
    """Writes `plan` into `model`, in place, and returns notes for the summary.

    1. A pair follows each planned activation; everything that read the tensor reads the pair,
       but for the plan's `float_edges` and `float_outputs`.
    2. Tensors that share a scale share its initializers.
    3. A constant is stored as codes with a DequantizeLinear behind it (with ``keep_float_weights`` as float32 with a
       pair); only the planned inputs read that, others keep the float constant.
    4. Nodes take rows of the codes of a table, and a DequantizeLinear follows each of them.
    5. A block format has one node in place of a pair, one for each axis that the readers of a tensor want; with
       ``packed_weights`` constants are stored as records, where that is smaller and exact.
    6. Pairs of int8 codes are kept from getting others by onnxruntime (`quarkfast.writers.runtime_forms`).
    7. Biases and weights in float are kept from being quantized by onnxruntime (`quarkfast.writers.runtime_forms`).
    8. For onnxruntime's processor kernels residual sums are kept from being fused (`quarkfast.writers.runtime_forms`).
    9. The nodes stay topologically sorted; graph inputs and outputs keep their names and types.
    """
    notes: tuple[str, ...] = ()
    if scheme.encoding == "dynamic":
        insert_dynamic(model, plan)
    else:
        notes = insert_pairs(model, plan, scheme).notes
    keep_signed(model)
    if scheme.encoding != "dynamic":
        keep_floats(model, half=scheme.float16_scales)
        notes += runtime_notes(model)
    if target.cpu_kernels:
        keep_sums(model)  # last: pairs stand between a normalization and a sum that is quantized
    return notes


class Inserted(NamedTuple):
    """What came of pairs.

    Attributes:
        notes: For the summary.
        parameters: Tensor that gives its scale to activations -> the names of the constants that its pairs take.
    """

    notes: tuple[str, ...]
    parameters: Mapping[str, tuple[str, ...]]


def insert_pairs(model: ir.Model, plan: Plan, scheme: Scheme) -> Inserted:
    """Writes a plan with scales into a model, in place, without what is for one runtime."""
    inserter = _Inserter(model, scheme, plan)
    values = ir.convenience.create_value_mapping(model.graph)
    for slot, constant in plan.constants:
        if isinstance(constant, QuantizedBlocks):
            inserter.insert_block_constant(slot.tensor, constant, slot.edges)
        elif slot.role != "table":
            inserter.insert_constant(slot.tensor, slot.tensor, constant, slot.edges)
    for bias, constant in plan.biases:
        inserter.insert_constant(
            bias.tensor,
            f"{bias.tensor}_quantized",
            constant,
            (bias.edge,),
            "contrib_bias" if scheme.contrib_pairs else "bias",
        )
    for tensor, root in plan.activations.items():
        if plan.quantizers[root].is_block:
            inserter.insert_rounding(values[tensor], plan.quantizers[root])
        else:
            inserter.insert_pair(values[tensor], root, plan.quantizers[root])
    for slot, constant in plan.constants:
        if slot.role == "table" and isinstance(constant, QuantizedTensor):
            inserter.insert_table(slot.tensor, constant, slot.edges)
    inserter.finish()
    return Inserted(inserter.notes(), inserter.parameters())


def parameters_of(quantizer: Quantizer, spelling: Spelling, rank: int = 0) -> dict[str, NDArray[Any]]:
    """Returns what nodes of a quantizer take, by what it is: scale and zero point, or a scale, or nothing.

    Args:
        quantizer: The quantizer.
        spelling: How it is spelled.
        rank: Of the values that it is for, where it has a scale for each channel.
    """
    if find_form(quantizer.dtype, spelling).parameters:
        return {"scale": quantizer.scale, "zero_point": quantizer.zero_point.astype(qtype(quantizer.dtype).dtype)}
    return {} if quantizer.is_plain_cast else {"scale": scale_along(quantizer, rank)}


class _Inserter:
    def __init__(self, model: ir.Model, scheme: Scheme, plan: Plan) -> None:
        self._model = model
        self._graph = model.graph
        self._scheme = scheme
        self._opset = opset_version(model)
        self._plan = plan
        self._tally = PackingTally()
        self._like: ir.Value | None = None
        self._limits: list[ir.Value] = []
        self._decoded: dict[str, list[tuple[QuantizedTensor, list[ir.Node]]]] = {}
        self._builder = GraphBuilder(model)
        self._add = self._builder.initializer
        self._own = OwnPairs(self._builder, model.graph, scheme.shares)
        self._nodes = {node.name: node for node in model.graph}
        self._parameters: dict[str, tuple[ir.Value, ...]] = {}

    def insert_pair(self, value: ir.Value, root: str, quantizer: Quantizer) -> None:
        if root not in self._parameters:
            self._parameters[root] = self._initialize(root, quantizer, self._scheme.spelling)
        name, readers = name_of(value), self._readers(value)
        clip = self._clip(value, quantizer)
        source, spelling = clip[0].outputs[0] if clip else value, self._scheme.spelling
        quantize, decode = self._pair(source, name, quantizer, self._parameters[root], spelling)
        nodes = clip + quantize + decode
        self._own.add(nodes, len(clip + quantize))
        splice(self._graph, value, nodes, nodes[-1].outputs[0], self._inner(value), readers)

    def _readers(self, value: ir.Value) -> list[tuple[ir.Node, int]]:
        """Returns what will read the pair behind `value`."""
        return [use for use in value.uses() if Edge(name_of(use[0]), use[1]) not in self._plan.placement.float_edges]

    def _inner(self, value: ir.Value) -> str:
        """Returns a new name for `value` if the pair behind it becomes the graph output; otherwise an empty one."""
        name = name_of(value)
        replaced = value.is_graph_output() and name not in self._plan.placement.float_outputs
        return self._builder.fresh(f"{name}_QuantizeLinear_Input") if replaced else ""

    def _clip(self, value: ir.Value, quantizer: Quantizer) -> list[ir.Node]:
        """Returns what keeps `value` from becoming infinite, where the scheme asks for it."""
        row = qtype(quantizer.dtype)
        if not self._scheme.clip_bfloat16 or not row.float32_range or row.constant_limits is None:
            return []
        if not self._limits:
            largest = np.float32(row.constant_limits[1])
            ends = ("lowest", -largest), ("largest", largest)
            self._limits = [self._add(f"quarkfast_{name}_{row.name}", np.asarray(end)) for name, end in ends]
        return self._call([clip_node(value, *self._limits)], f"{name_of(value)}_QuantizeLinear")

    def insert_rounding(self, value: ir.Value, quantizer: Quantizer) -> None:
        name = name_of(value)
        for axis, readers in activation_axes(value, self._readers(value)):
            node = round_node(value, quantizer.dtype, axis, self._scheme.block_rounding)
            self._call([node], f"{name}_DequantizeLinear")
            splice(self._graph, value, (node,), node.outputs[0], self._inner(value), readers)

    def insert_block_constant(self, tensor: str, constant: QuantizedBlocks, edges: tuple[Edge, ...]) -> None:
        floats, unchanged = constant.representable()
        records = constant.packed(floats) if self._scheme.packed_weights else None
        if records is None:
            source = self._graph.initializers[tensor] if unchanged else self._add(f"{tensor}_quantized", floats)
            node = round_node(source, constant.quantizer.dtype, constant.axis, constant.rounding)
        else:
            stored = self._add(f"{tensor}_packed", records)
            node = decode_block_node(stored, self._float32(), constant.row, floats.shape, constant.axis)
        self._tally.add(constant.row, floats, records)
        self._connect(self._call([node], f"{tensor}_DequantizeLinear"), edges)

    def parameters(self) -> dict[str, tuple[str, ...]]:
        return {root: tuple(map(name_of, values)) for root, values in self._parameters.items()}

    def notes(self) -> tuple[str, ...]:
        return self._tally.notes() if self._scheme.packed_weights else ()

    def insert_constant(
        self,
        tensor: str,
        stem: str,
        constant: QuantizedTensor,
        edges: tuple[Edge, ...],
        spelling: Spelling | None = None,
    ) -> None:
        quantizer = constant.quantizer
        spelling = self._spelling(quantizer) if spelling is None else spelling
        for known, nodes in self._decoded.get(stem, []):
            if _are_equal(known, constant):
                self._connect(nodes, edges)
                return
        if self._scheme.keep_float_weights and spelling not in ("bias", "contrib_bias"):
            source = self._add(f"{tensor}_quantized", constant.representable())
            quantize, decode = self._pair(
                source, tensor, quantizer, self._initialize(stem, quantizer, spelling), spelling
            )
            added = quantize + decode
        else:
            source = self._add(f"{tensor}_quantized", constant.encoded())
            added = self._decode(source, tensor, stem, quantizer, spelling)
        self._decoded.setdefault(stem, []).append((constant, added))
        self._own.add(added, 0)
        self._connect(added, edges)

    def insert_table(self, tensor: str, constant: QuantizedTensor, edges: tuple[Edge, ...]) -> None:
        """Has nodes take rows of codes, which turn float behind them: columns are the last axis of any rows."""
        behind = replace(constant.quantizer, axis=-1)
        codes, spelling = self._add(f"{tensor}_quantized", constant.encoded()), self._spelling(behind)
        parameters = self._initialize(tensor, behind, spelling)
        for edge in edges:
            node = self._nodes[edge.node]
            rows, name = node.outputs[0], name_of(node.outputs[0])
            decode = self._call(dequantize_nodes(rows, parameters, behind, spelling), f"{name}_DequantizeLinear")
            node.replace_input_with(edge.index, codes)
            rows.type = codes.type
            splice(self._graph, rows, decode, decode[-1].outputs[0], "")

    def _spelling(self, quantizer: Quantizer) -> Spelling:
        """Returns how a constant with such codes is spelled."""
        return spelling_of_constant(quantizer.dtype, self._scheme, self._opset)

    def _connect(self, added: list[ir.Node], edges: tuple[Edge, ...]) -> None:
        nodes = [self._nodes[edge.node] for edge in edges]
        if added[0].graph is None:
            self._graph.insert_before(nodes[0], added)
        for node, edge in zip(nodes, edges, strict=True):
            node.replace_input_with(edge.index, added[-1].outputs[0])

    def finish(self) -> None:
        """Gives readers nodes of their own, drops float constants that nothing reads and imports the domains in use."""
        self._own.write()
        drop_unread(self._graph)
        for node in self._graph:
            if not is_standard(node):
                self._model.opset_imports.setdefault(node.domain, 1)

    def _decode(self, codes: ir.Value, name: str, stem: str, quantizer: Quantizer, spelling: Spelling) -> list[ir.Node]:
        # onnxruntime computes a Cast of a constant once, but never a custom operator: with that in front of its weights
        # a convolution is neither prepacked nor laid out in blocks.
        spelling = "cast" if quantizer.is_plain_cast else spelling
        nodes = dequantize_nodes(codes, self._initialize(stem, quantizer, spelling), quantizer, spelling)
        return self._call(nodes, f"{name}_DequantizeLinear")

    def _pair(
        self,
        value: ir.Value,
        name: str,
        quantizer: Quantizer,
        parameters: tuple[ir.Value, ...],
        spelling: Spelling,
    ) -> tuple[list[ir.Node], list[ir.Node]]:
        """Returns the nodes that lead to codes, and those that lead back."""
        quantize = quantize_nodes(value, parameters, quantizer, spelling)
        named = self._call(quantize, f"{name}_QuantizeLinear")
        dequantize = dequantize_nodes(named[-1].outputs[0], parameters, quantizer, spelling)
        return named, self._call(dequantize, f"{name}_DequantizeLinear")

    def _call(self, nodes: Iterable[ir.Node], name: str) -> list[ir.Node]:
        """Names nodes and their outputs; what stands beside the operator that the name is of says so."""
        called = list(nodes)
        for node in called:
            own = f"{name}_{node.op_type}" if node.op_type in ("Clip", "Div", "Mul") else name
            self._builder.call(node, own)
        return called

    def _initialize(self, stem: str, quantizer: Quantizer, spelling: Spelling) -> tuple[ir.Value, ...]:
        """Adds what the nodes of `quantizer` take."""
        found = parameters_of(quantizer, spelling, self._rank(stem))
        return tuple(self._add(f"{stem}_{name}", array) for name, array in found.items())

    def _rank(self, tensor: str) -> int:
        value = self._graph.initializers.get(tensor)
        return rank_of(value)

    def _float32(self) -> ir.Value:
        """Returns the constant that lends its type to unpacked weights, the same for all."""
        if self._like is None:
            self._like = self._add("quarkfast_float32", np.zeros((), np.float32))
        return self._like


def _are_equal(one: QuantizedTensor, other: QuantizedTensor) -> bool:
    """Whether two forms of a constant have the same codes: of a table that Gather reads and a layer too."""
    if one.codes is not other.codes:
        return False
    first, second = one.quantizer, other.quantizer
    alike = [(each.dtype, each.axis, each.qmin, each.qmax, each.pairs) for each in (first, second)]
    return alike[0] == alike[1] and bool(
        np.array_equal(first.scale, second.scale) and np.array_equal(first.zero_point, second.zero_point)
    )
