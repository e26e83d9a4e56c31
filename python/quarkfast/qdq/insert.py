"""Puts a plan into a model: pairs behind activations, DequantizeLinear behind stored codes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from quarkfast.config import Scheme
from quarkfast.dtypes import qtype
from quarkfast.graph.access import array_of, is_standard, name_of
from quarkfast.graph.edit import splice
from quarkfast.graph.names import Names
from quarkfast.graph.placement import Edge
from quarkfast.graph.plan import Plan, Quantizer
from quarkfast.qdq.codes import codes_of, limited
from quarkfast.qdq.nodes import dequantize_node, find_form, quantize_node

__all__ = ["insert"]


def insert(model: ir.Model, plan: Plan, scheme: Scheme) -> None:
    """Writes `plan` into `model`, in place.

    1. A pair stands behind each planned activation; everything that read the tensor reads the pair.
    2. Tensors that share a scale share its initializers.
    3. A constant is stored as codes with a DequantizeLinear behind it (with ``keep_float_weights`` as float32 with a
       pair); only the planned inputs read that, others keep the float constant.
    4. The nodes stay topologically sorted; graph inputs and outputs keep their names and types.
    """
    inserter = _Inserter(model, scheme)
    values = ir.convenience.create_value_mapping(model.graph)
    for slot, quantizer in plan.constants:
        inserter.insert_constant(slot.tensor, slot.tensor, quantizer, slot.edges, scheme.keep_float_weights)
    for bias, quantizer in plan.biases:
        inserter.insert_constant(bias.tensor, f"{bias.tensor}_quantized", quantizer, (bias.edge,), keep_float=False)
    for tensor, root in plan.activations.items():
        inserter.insert_pair(values[tensor], root, plan.quantizers[root])
    inserter.finish()


class _Inserter:
    def __init__(self, model: ir.Model, scheme: Scheme) -> None:
        self._model = model
        self._graph = model.graph
        self._encoding = scheme.encoding
        self._names = Names.of(model)
        self._nodes = {node.name: node for node in model.graph}
        self._parameters: dict[str, tuple[ir.Value, ...]] = {}

    def insert_pair(self, value: ir.Value, root: str, quantizer: Quantizer) -> None:
        if root not in self._parameters:
            self._parameters[root] = self._initialize(root, quantizer)
        name = name_of(value)
        quantize, dequantize = self._pair(value, name, quantizer, self._parameters[root])
        inner = self._names.fresh(f"{name}_QuantizeLinear_Input") if value.is_graph_output() else ""
        splice(self._graph, value, (quantize, dequantize), dequantize.outputs[0], inner)

    def insert_constant(
        self, tensor: str, stem: str, quantizer: Quantizer, edges: tuple[Edge, ...], keep_float: bool
    ) -> None:
        floats = array_of(self._graph.initializers[tensor])
        if keep_float:
            source = self._add(f"{tensor}_quantized", limited(floats, quantizer.dtype))
            added: tuple[ir.Node, ...] = self._pair(source, tensor, quantizer, self._initialize(stem, quantizer))
        else:
            source = self._add(f"{tensor}_quantized", codes_of(floats, quantizer))
            added = (self._decode(source, tensor, stem, quantizer),)
        nodes = [self._nodes[edge.node] for edge in edges]
        self._graph.insert_before(nodes[0], added)
        for node, edge in zip(nodes, edges, strict=True):
            node.replace_input_with(edge.index, added[-1].outputs[0])

    def finish(self) -> None:
        """Drops float constants that nothing reads any more and imports the domains in use."""
        initializers = self._graph.initializers
        for name in [name for name, value in initializers.items() if not value.uses() and not value.is_graph_output()]:
            del initializers[name]
        for node in self._graph:
            if not is_standard(node):
                self._model.opset_imports.setdefault(node.domain, 1)

    def _decode(self, codes: ir.Value, name: str, stem: str, quantizer: Quantizer) -> ir.Node:
        if quantizer.is_plain_cast:
            # onnxruntime computes a Cast of a constant once, but never a custom operator: with that in front of its
            # weights a convolution is neither prepacked nor laid out in blocks.
            node = dequantize_node(codes, (), quantizer, "cast")
            self._call(node, f"{name}_DequantizeLinear")
            return node
        return self._dequantize(codes, name, quantizer, self._initialize(stem, quantizer))

    def _pair(
        self, value: ir.Value, name: str, quantizer: Quantizer, parameters: tuple[ir.Value, ...]
    ) -> tuple[ir.Node, ir.Node]:
        quantize = quantize_node(value, parameters, quantizer, self._encoding)
        self._call(quantize, f"{name}_QuantizeLinear")
        return quantize, self._dequantize(quantize.outputs[0], name, quantizer, parameters)

    def _dequantize(
        self, value: ir.Value, name: str, quantizer: Quantizer, parameters: tuple[ir.Value, ...]
    ) -> ir.Node:
        dequantize = dequantize_node(value, parameters, quantizer, self._encoding)
        self._call(dequantize, f"{name}_DequantizeLinear")
        return dequantize

    def _call(self, node: ir.Node, name: str) -> None:
        node.name = self._names.fresh(name)
        node.outputs[0].name = self._names.fresh(f"{name}_Output")

    def _initialize(self, stem: str, quantizer: Quantizer) -> tuple[ir.Value, ...]:
        if not find_form(quantizer.dtype, self._encoding).parameters:
            return ()
        zero_point = quantizer.zero_point.astype(qtype(quantizer.dtype).dtype)
        return self._add(f"{stem}_scale", quantizer.scale), self._add(f"{stem}_zero_point", zero_point)

    def _add(self, name: str, array: NDArray[np.generic]) -> ir.Value:
        tensor = ir.tensor(array, name=self._names.fresh(name))
        kind, shape = ir.TensorType(tensor.dtype), ir.Shape(array.shape)
        value = ir.Value(name=tensor.name, type=kind, shape=shape, const_value=tensor)
        self._graph.register_initializer(value)
        return value
