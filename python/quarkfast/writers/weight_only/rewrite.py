"""The writer of stored weights, and the oldest operator set that can decode them."""

from __future__ import annotations

from quarkfast.config import Scheme, TensorSpec, stored_forms
from quarkfast.deferred import ir
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import graph_of, name_of, shape_of, tensor_of
from quarkfast.graph.builder import GraphBuilder, add_initializer, drop_unread
from quarkfast.graph.chunked_io import Stream
from quarkfast.graph.rewriting import splice
from quarkfast.graph.runtimes import runtime_notes
from quarkfast.graph.subgraphs import graphs_of, nodes_of
from quarkfast.quantization.weight_only import Reader, StoredWeight, StreamedWeight, WeightPlan, reads_table
from quarkfast.writers.runtime_forms import keep_signed

__all__ = ["lowest_opset", "rewrite"]

_HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


def lowest_opset(model: ir.Model, scheme: Scheme) -> int:
    """Returns the oldest operator set that carries `scheme` for the weights of `model`.

    MatMulNBits is no standard operator and needs none, but tables beside it have codes for each column. Cast knows
    bfloat16 from 13 on; DequantizeLinear knows channels from 13, float16 from 19, groups and 4-bit codes from 21.
    """
    packed = scheme.encoding == "nbits"
    halves = any(value.dtype in _HALVES for graph in graphs_of(model) for value in graph.initializers.values())
    tables = packed and not scheme.strict and any(map(reads_table, nodes_of(model.graph)))
    columns = TensorSpec("int8", granularity="channel")
    beside = _oldest(columns, False, halves) if tables else 10
    return max(beside, *(_oldest(spec, packed, halves) for spec in stored_forms(scheme)))


def _oldest(spec: TensorSpec, packed: bool, halves: bool) -> int:
    """Returns the oldest operator set for one form of a weight; `halves` says that weights may be 16-bit floats."""
    if spec.stays_float:
        return 10
    if not spec.format.is_integer:
        return 13
    if packed:
        return 10
    if spec.granularity == "group" or qtype(spec.dtype).stored_bits == 4:
        return 21
    if halves:
        return 19
    return 13 if spec.granularity == "channel" else 10


_MICROSOFT = "com.microsoft"


def rewrite(model: ir.Model, plan: WeightPlan, scheme: Scheme) -> list[str]:
    """Writes `plan` into `model`, in place; the new constants are made when they are written or read.

    1. A constant is replaced by codes or 16-bit floats with DequantizeLinear or Cast behind it, at the beginning of its
       graph. Only the planned inputs read that.
    2. Where Gather looks rows up in a table, DequantizeLinear or Cast follows the Gather.
    3. With ``"nbits"`` a MatMulNBits takes the place of MatMul or Gemm; an Add behind it adds Gemm's C. Products whose
       weight is wide stay.
    4. What an int8 DequantizeLinear gives is kept from onnxruntime's own pairs (`quarkfast.writers.runtime_forms`).
    5. Graph inputs and outputs keep their names and types. What nothing reads any more is dropped.

    Returns:
        The notes of `plan`, which gets more while the constants are made.
    """
    rewriter = _StoredRewriter(model, scheme)
    for weight in plan.weights:
        rewriter.store(weight)
    rewriter.finish()
    keep_signed(model)
    plan.notes.extend(runtime_notes(model))
    return plan.notes


class _StoredRewriter:
    def __init__(self, model: ir.Model, scheme: Scheme) -> None:
        self._model = model
        self._encoding = scheme.encoding
        self._builder = GraphBuilder(model)

    def store(self, planned: StreamedWeight) -> None:
        weight = planned.slot
        graph, stem = graph_of(weight.value), name_of(weight.value)
        parts = self._register(graph, planned.codes)
        if self._encoding == "nbits" and weight.has_codes and not weight.gathered:
            for reader in weight.readers:
                self._multiply(reader.node, parts, weight)
        elif weight.gathered:
            for reader in weight.readers:
                self._decode_rows(reader.node, parts, weight, stem)
        else:
            node = self._decoder(parts, weight, stem)
            graph.insert_before(graph[0], node)
            for reader in weight.readers:
                where = _untransposed(reader, weight.value)
                where.node.replace_input_with(where.index, node.outputs[0])

    def finish(self) -> None:
        """Drops what nothing reads any more and imports the domain in use."""
        for graph in graphs_of(self._model):
            for node in [node for node in graph if node.op_type == "Transpose" and not _is_read(node.outputs[0])]:
                graph.remove(node, safe=True)
            drop_unread(graph)
        if any(node.domain == _MICROSOFT for node in nodes_of(self._model.graph)):
            self._model.opset_imports.setdefault(_MICROSOFT, 1)

    def _register(self, graph: ir.Graph, stream: Stream) -> list[ir.Value]:
        values = []
        for tensor in stream.tensors():
            tensor.name = self._builder.fresh(tensor.stream.outputs[tensor.index].name)
            values.append(add_initializer(graph, tensor))
        return values

    def _decoder(self, parts: list[ir.Value], weight: StoredWeight, stem: str) -> ir.Node:
        attributes = {} if weight.axis is None else {"axis": weight.axis}
        if weight.spec.granularity == "group":
            attributes["block_size"] = weight.spec.group_size
        node = _decoding(parts, weight, attributes)
        self._builder.call(node, f"{stem}_{node.op_type}")
        node.outputs[0].type, node.outputs[0].shape = weight.value.type, weight.value.shape
        return node

    def _decode_rows(self, gather: ir.Node, parts: list[ir.Value], weight: StoredWeight, stem: str) -> None:
        """Lets `gather` look codes or 16-bit floats up; their channels are the last axis of what it gives."""
        rows = gather.outputs[0]
        node = _decoding([rows, *parts[1:]], weight, {} if weight.axis is None else {"axis": -1})
        self._builder.call(node, f"{stem}_{node.op_type}")
        node.outputs[0].type, node.outputs[0].shape = rows.type, rows.shape
        inner = self._builder.fresh(f"{name_of(rows)}_quantized") if rows.is_graph_output() else ""
        splice(graph_of(rows), rows, (node,), node.outputs[0], inner)
        gather.replace_input_with(0, parts[0])
        rows.type = parts[0].type

    def _multiply(self, product: ir.Node, parts: list[ir.Value], weight: StoredWeight) -> None:
        shape = shape_of(tensor_of(weight.value))
        n, k = shape if weight.axis == 1 else shape[::-1]
        attributes = {"K": k, "N": n, "bits": int(weight.spec.format.bits), "block_size": weight.spec.group_size}
        node = ir.node("MatMulNBits", [product.inputs[0], *parts], attributes, domain=_MICROSOFT)
        node.name = product.name
        nodes, old = [node], product.outputs[0]
        if product.op_type == "Gemm" and len(product.inputs) > 2 and product.inputs[2] is not None:
            nodes.append(ir.node("Add", [node.outputs[0], product.inputs[2]]))
            nodes[1].name = self._builder.fresh(f"{name_of(product)}_Add")
            node.outputs[0].name = self._builder.fresh(f"{name_of(old)}_MatMulNBits_Output")
            node.outputs[0].type = old.type
        new = nodes[-1].outputs[0]
        new.name, new.type, new.shape = old.name, old.type, old.shape
        ir.convenience.replace_nodes_and_values(graph_of(old), product, [product], nodes, [old], [new])


def _decoding(inputs: list[ir.Value], weight: StoredWeight, attributes: dict[str, int]) -> ir.Node:
    """Returns the node that makes floats of codes, or of 16-bit floats."""
    if not weight.has_codes:
        return ir.node("Cast", inputs, {"to": int(ir.DataType.FLOAT)})
    return ir.node("DequantizeLinear", inputs, attributes)


def _untransposed(reader: Reader, weight: ir.Value) -> Reader:
    """Returns the input that takes a weight as it lies: that of a Transpose where one stands in front of a product."""
    value = reader.node.inputs[reader.index]
    producer = None if value is None or value is weight else value.producer()
    return reader if producer is None else Reader(producer, 0)


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()
