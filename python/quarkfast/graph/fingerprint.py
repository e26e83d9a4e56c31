"""A name for what a model computes: the same for the same graph and weights, however they are stored."""

from __future__ import annotations

import hashlib

import numpy as np
import onnx

from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.chunked_io import byte_pieces
from quarkfast.graph.subgraphs import graphs_of

__all__ = ["fingerprint"]


def fingerprint(model: ir.Model) -> str:
    """Returns the SHA-256 of everything in `model` that decides its results, in hexadecimal.

    Nodes, attributes, names, types and weights count; documentation, metadata, the producer's name and where tensors
    are stored do not. Tensors are read piece by piece.
    """
    digest = hashlib.sha256()

    def add(*parts: object) -> None:
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode()
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)

    def add_tensor(tensor: ir.TensorProtocol) -> None:
        if tensor.dtype == ir.DataType.STRING:
            add(repr(np.asarray(tensor.numpy()).tolist()))
            return
        digest.update(tensor.nbytes.to_bytes(8, "little"))
        for piece in byte_pieces(tensor):
            digest.update(piece.data)

    add("opsets", *sorted(model.opset_imports.items()))
    graphs: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for graph in graphs:
        add("inputs", *(f"{value.name} {value.dtype} {value.shape}" for value in graph.inputs))
        add("outputs", *map(name_of, graph.outputs))
        for node in graph:
            add("node", node.domain, node.op_type, node.overload)
            add("reads", *map(name_of, node.inputs), "writes", *map(name_of, node.outputs))
            for attribute in sorted(node.attributes.values(), key=lambda each: each.name):
                add(_plain(ir.serde.serialize_attribute(attribute)))
                if attribute.type == ir.AttributeType.TENSOR and isinstance(attribute.value, ir.ExternalTensor):
                    add_tensor(attribute.value)
    for body in graphs_of(model)[1:]:  # an attribute holds what else is in it
        nodes = (attribute for node in body for attribute in node.attributes.values())
        tensors = [each.value for each in nodes if each.type == ir.AttributeType.TENSOR and not each.is_ref()]
        for tensor in (*(value.const_value for value in body.initializers.values()), *tensors):
            if isinstance(tensor, ir.ExternalTensor):
                add_tensor(tensor)
    for name, value in sorted(model.graph.initializers.items()):
        tensor = value.const_value
        if tensor is not None:
            add("tensor", name, tensor.dtype, tensor.shape)
            add_tensor(tensor)
    return digest.hexdigest()


def _plain(attribute: onnx.AttributeProto) -> bytes:
    """Returns an attribute without documentation, and without where its tensor is stored, or those of its body."""
    attribute.ClearField("doc_string")
    del attribute.t.external_data[:]
    _forget_files(attribute.g)
    return bytes(attribute.SerializeToString(deterministic=True))


def _forget_files(body: onnx.GraphProto) -> None:
    for tensor in body.initializer:
        del tensor.external_data[:]
    for attribute in (each for node in body.node for each in node.attribute):
        _forget_files(attribute.g)
        if attribute.HasField("t"):
            del attribute.t.external_data[:]
