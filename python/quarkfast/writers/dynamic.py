"""Dynamic quantization: the model itself quantizes activations by their range, and products are integer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, name_of
from quarkfast.graph.builder import GraphBuilder, drop_unread
from quarkfast.graph.operators import RECURRENT_WEIGHTS
from quarkfast.graph.placement import Edge
from quarkfast.quantization.codes import scale_along
from quarkfast.quantization.plan import Plan, QuantizedBlocks, QuantizedTensor

__all__ = ["insert_dynamic"]


_RUNTIME = "com.microsoft"


class _Activation(NamedTuple):
    """The outputs of a DynamicQuantizeLinear."""

    codes: ir.Value
    scale: ir.Value
    zero_point: ir.Value


class _Weight(NamedTuple):
    """A weight as codes: of the layout that the integer operator wants, its scale ready to be multiplied."""

    codes: ir.Value
    scale: ir.Value
    zero_point: ir.Value | None


def insert_dynamic(model: ir.Model, plan: Plan) -> None:
    """Replaces the layers that `plan` has weights for, in place, in the way ONNX Runtime does and fuses.

    1. ``MatMul(x, w)`` becomes DynamicQuantizeLinear, MatMulInteger, Cast to float32 and a Mul with the product of both
       scales; a Gemm also loses its transposition and gets an Add for its bias.
    2. ``Conv(x, w, b)`` becomes the same with ConvInteger. Its codes are stored as uint8, 128 higher and with 128 as
       zero point, because onnxruntime takes int8 there only from 1.24 on; the products are the same integers.
    3. Gather from a constant gathers codes; a DequantizeLinear follows it. Where each row has a scale, another
       Gather picks these, and a Mul follows.
    4. An LSTM becomes onnxruntime's DynamicQuantizeLSTM. Its weights lie transposed, with a scale for each row of a
       gate, or one for each direction.
    5. A tensor that several layers read is quantized once. Graph inputs and outputs keep their names and types.
    """
    rewriter = _DynamicRewriter(model)
    for slot, weight in plan.constants:
        if isinstance(weight, QuantizedBlocks):
            raise TypeError(f"tensor {slot.tensor!r}: expected integer codes for dynamic quantization, got blocks")
        for edge in slot.edges:
            rewriter.rewrite(edge, slot.tensor, weight)
    rewriter.finish()


# What DynamicQuantizeLinear gives, in order.
_OUTPUTS = (
    ("quantized", ir.DataType.UINT8), ("scale", ir.DataType.FLOAT), ("zero_point", ir.DataType.UINT8),
)  # fmt: skip


class _DynamicRewriter:
    def __init__(self, model: ir.Model) -> None:
        self._model = model
        self._graph = model.graph
        self._builder = GraphBuilder(model)
        self._nodes = {node.name: node for node in model.graph}
        self._activations: dict[ir.Value, _Activation] = {}
        self._stored: dict[str, list[ir.Value]] = {}
        self._gates: dict[ir.Node, dict[int, _Weight]] = {}

    def rewrite(self, edge: Edge, tensor: str, weight: QuantizedTensor) -> None:
        node = self._nodes[edge.node]
        if node.op_type == "LSTM":
            self._add_gates(node, edge.index, tensor, weight)
            return
        rewrite = {"Gather": self._gather, "Conv": self._conv}.get(node.op_type, self._matrix)
        added = rewrite(node, tensor, weight)
        old, new = node.outputs[0], added[-1].outputs[0]
        wanted, new.shape, new.dtype = name_of(old), old.shape, ir.DataType.FLOAT
        old.name = None
        new.name = wanted
        ir.convenience.replace_nodes_and_values(self._graph, node, [node], added, [old], [new])

    def _add_gates(self, node: ir.Node, index: int, tensor: str, weight: QuantizedTensor) -> None:
        """Notes one of the two weights of an LSTM, and replaces that once both are known."""
        known = self._gates.setdefault(node, {})
        known[index] = self._transposed(tensor, weight)
        if len(known) < len(RECURRENT_WEIGHTS):
            return
        w, r = (known[each] for each in RECURRENT_WEIGHTS)
        rest = [*node.inputs[3:], *(None,) * (8 - len(node.inputs))]
        inputs = [node.inputs[0], w.codes, r.codes, *rest, w.scale, w.zero_point, r.scale, r.zero_point]
        attributes = [each for each in node.attributes.values() if each.name != "layout"]
        outputs = len(node.outputs)
        new = ir.Node(_RUNTIME, "DynamicQuantizeLSTM", inputs, attributes, num_outputs=outputs, name=node.name)
        for old, made in zip(node.outputs, new.outputs, strict=True):
            made.name, made.shape, made.type, old.name = old.name, old.shape, old.type, None
        ir.convenience.replace_nodes_and_values(self._graph, node, [node], [new], node.outputs, new.outputs)
        self._model.opset_imports.setdefault(_RUNTIME, 1)

    def _transposed(self, tensor: str, constant: QuantizedTensor) -> _Weight:
        """Stores a weight of an LSTM as its integer operator wants it: [directions, inputs, rows of gates]."""
        quantizer, (directions, rows, _) = constant.quantizer, constant.shape
        codes = np.ascontiguousarray(np.swapaxes(constant.encoded(), 1, 2))
        shape = (directions,) if quantizer.axis is None else (directions, rows)
        scale, zero = (np.broadcast_to(each, shape) for each in (quantizer.scale, quantizer.zero_point))
        return _Weight(
            self._store(f"{tensor}_quantized", codes),
            self._store(f"{tensor}_scale", np.ascontiguousarray(scale)),
            self._store(f"{tensor}_zero_point", zero.astype(codes.dtype)),
        )

    def finish(self) -> None:
        """Drops float constants that nothing reads any more."""
        drop_unread(self._graph)

    def _matrix(self, node: ir.Node, tensor: str, constant: QuantizedTensor) -> list[ir.Node]:
        codes, quantizer = constant.encoded(), constant.quantizer
        transposed = node.op_type == "Gemm" and bool(node.attributes.get_int("transB", 0))
        alpha = node.attributes.get_float("alpha", 1.0) if node.op_type == "Gemm" else 1.0
        weight = self._weight(tensor, codes, quantizer.scale * np.float32(alpha), quantizer.zero_point)
        turned: list[ir.Node] = []
        if transposed:
            # A runtime turns a constant once; the file keeps one form of a table that Gather reads too.
            turned = [self._node(node, "Transpose", [weight.codes], [ir.AttrInt64s("perm", [1, 0])])]
            weight = weight._replace(codes=turned[0].outputs[0])
        added = turned + self._product(node, "MatMulInteger", weight)
        bias = self._bias(node)
        if bias is not None:
            added.append(self._node(node, "Add", [added[-1].outputs[0], bias]))
        return added

    def _conv(self, node: ir.Node, tensor: str, constant: QuantizedTensor) -> list[ir.Node]:
        rank = len(constant.shape)
        scale = scale_along(constant.quantizer, rank)
        scale = scale[:, 0] if scale.ndim else scale
        codes, zero_point = constant.encoded(), constant.quantizer.zero_point
        if codes.dtype == np.int8:
            codes, zero_point = (codes.view(np.uint8) ^ 128), np.asarray(zero_point.flat[0] + 128)
        weight = self._weight(tensor, codes, scale, zero_point)
        added = self._product(node, "ConvInteger", weight, node.attributes.values())
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        if bias is not None:
            shape = np.array([1, -1] + [1] * (rank - 2), np.int64)
            raised = self._node(node, "Reshape", [bias, self._store(f"{name_of(bias)}_shape", shape)])
            added += [raised, self._node(node, "Add", [added[-1].outputs[0], raised.outputs[0]])]
        return added

    def _gather(self, node: ir.Node, tensor: str, constant: QuantizedTensor) -> list[ir.Node]:
        codes, quantizer = constant.encoded(), constant.quantizer
        zero = np.asarray(quantizer.zero_point.flat[0], codes.dtype)  # one for all: channels are symmetric
        zero_point = self._store(f"{tensor}_zero_point", zero)
        stored = self._store(f"{tensor}_quantized", codes)
        gather = self._node(node, "Gather", [stored, node.inputs[1]], node.attributes.values())
        if quantizer.axis is None:
            scale = self._store(f"{tensor}_scale", quantizer.scale)
            return [gather, self._node(node, "DequantizeLinear", [gather.outputs[0], scale, zero_point])]
        one = self._store(f"{tensor}_one", np.ones((), np.float32))
        values = self._node(node, "DequantizeLinear", [gather.outputs[0], one, zero_point])
        scale = self._store(f"{tensor}_scale", scale_along(quantizer, len(constant.shape)))
        scales = self._node(node, "Gather", [scale, node.inputs[1]], node.attributes.values())
        return [gather, values, scales, self._node(node, "Mul", [values.outputs[0], scales.outputs[0]])]

    def _product(
        self, node: ir.Node, op_type: str, weight: _Weight, attributes: Iterable[ir.Attr] = ()
    ) -> list[ir.Node]:
        data = self._quantized(node.inputs[0])
        zero_points = [data.zero_point] + ([weight.zero_point] if weight.zero_point is not None else [])
        product = self._node(node, op_type, [data.codes, weight.codes, *zero_points], attributes)
        product.outputs[0].dtype = ir.DataType.INT32
        cast = self._node(node, "Cast", [product.outputs[0]], [ir.AttrInt64("to", int(ir.DataType.FLOAT))])
        scale = self._node(node, "Mul", [data.scale, weight.scale])
        return [product, cast, scale, self._node(node, "Mul", [cast.outputs[0], scale.outputs[0]])]

    def _quantized(self, value: ir.Value | None) -> _Activation:
        if value is None:
            raise TypeError("layer: expected an input, got none")
        if value not in self._activations:
            name = name_of(value)
            node = ir.node("DynamicQuantizeLinear", [value], num_outputs=3)
            node.name = self._builder.fresh(f"{name}_QuantizeLinear")
            for output, (suffix, dtype) in zip(node.outputs, _OUTPUTS, strict=True):
                output.name, output.dtype = self._builder.fresh(f"{name}_{suffix}"), dtype
            producer = value.producer()
            if producer is None:
                self._graph.insert_before(self._graph[0], node)
            else:
                self._graph.insert_after(producer, node)
            self._activations[value] = _Activation(*node.outputs)
        return self._activations[value]

    def _weight(self, stem: str, codes: NDArray[Any], scale: NDArray[np.float32], zero_point: NDArray[Any]) -> _Weight:
        zero = self._store(f"{stem}_zero_point", zero_point.astype(codes.dtype)) if zero_point.any() else None
        stored = self._store(f"{stem}_quantized", np.ascontiguousarray(codes))
        return _Weight(stored, self._store(f"{stem}_scale", scale), zero)

    def _bias(self, node: ir.Node) -> ir.Value | None:
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        beta = node.attributes.get_float("beta", 1.0)
        if bias is None or beta == 1:
            return bias
        return self._store(f"{name_of(bias)}_{node.name}", array_of(bias) * np.float32(beta))

    def _store(self, name: str, array: NDArray[Any]) -> ir.Value:
        """Returns the initializer of that name and contents: what two layers read with one scale is stored once."""
        for value in self._stored.get(name, []):
            if value.dtype == ir.Tensor(array).dtype and np.array_equal(array_of(value), array):
                return value
        value = self._builder.initializer(name, array)
        self._stored.setdefault(name, []).append(value)
        return value

    def _node(
        self, layer: ir.Node, op_type: str, inputs: Sequence[ir.Value | None], attributes: Iterable[ir.Attr] = ()
    ) -> ir.Node:
        node = ir.Node("", op_type, inputs, attributes, name=self._builder.fresh(f"{name_of(layer)}_{op_type}"))
        node.outputs[0].name = self._builder.fresh(f"{node.name}_Output")
        return node
