"""Observe operators behind tensors of a model, its bodies included.

The model is edited as protobuf, which it must become for ONNX Runtime anyway: a copy of the onnx_ir model with the
operators in it costs twice the time, as much as the inference of ten small images.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import onnx

__all__ = ["add_observers"]

_DOMAIN = "quarkfast"


def add_observers(
    model: onnx.ModelProto, tensors: Sequence[str], collector: int, axes: Mapping[int, int] = MappingProxyType({})
) -> None:
    """Puts an Observe operator behind each of `tensors`, in place; slot `i` of the collector is tensor `i`.

    Args:
        model: The model. Its outputs keep their names.
        tensors: Names of graph inputs and of outputs of nodes, those of bodies by path.
        collector: Id of an open collector.
        axes: Axis of the channels of slots whose magnitudes are gathered channel by channel.
    """
    _observe(model.graph, {name: slot for slot, name in enumerate(tensors)}, collector, axes, "")
    if not any(each.domain == _DOMAIN for each in model.opset_import):
        model.opset_import.append(onnx.OperatorSetIdProto(domain=_DOMAIN, version=1))


def _observe(
    graph: onnx.GraphProto, slots: Mapping[str, int], collector: int, axes: Mapping[int, int], path: str
) -> None:
    def observer(tensor: str, source: str, target: str) -> onnx.NodeProto:
        node = onnx.NodeProto(op_type="Observe", domain=_DOMAIN, name=f"{path}{tensor}, observer")
        node.input.append(source)
        node.output.append(target)
        node.attribute.add(name="collector", type=onnx.AttributeProto.INT, i=collector)
        slot = slots[path + tensor]
        node.attribute.add(name="slot", type=onnx.AttributeProto.INT, i=slot)
        if slot in axes:
            node.attribute.add(name="axis", type=onnx.AttributeProto.INT, i=axes[slot])
        return node

    nodes = []
    for value in graph.input:
        # The input must keep its name, so all its readers read the output of the observer.
        if path + value.name in slots:
            _rename(graph, value.name, f"{value.name}, observed")
            nodes.append(observer(value.name, value.name, f"{value.name}, observed"))
    for node in graph.node:
        nodes.append(node)
        for name, body in _bodies(node):
            _observe(body, slots, collector, axes, f"{path}{node.name}:{name}:")
        for index, tensor in enumerate(node.output):
            # The output of the observer takes over the name, so that readers need no change.
            if tensor and path + tensor in slots:
                node.output[index] = f"{tensor}, not yet observed"
                nodes.append(observer(tensor, node.output[index], tensor))
    del graph.node[:]
    graph.node.extend(nodes)


def _rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Makes all nodes that read `old` read `new`, those of bodies too."""
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name == old:
                node.input[index] = new
        for _, body in _bodies(node):
            _rename(body, old, new)


def _bodies(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    return ((each.name, each.g) for each in node.attribute if each.type == onnx.AttributeProto.GRAPH)
