"""ONNX's text with names of nodes, `[first] y = Relu (x)`, which onnx 1.17 cannot parse."""

from __future__ import annotations

import re
from collections.abc import Iterator

import onnx

__all__ = ["parse_graph", "parse_model"]

_NAME = re.compile(r"(?<=[\s{])\[(\w+)\]\s+(?=(\w+)[\w, ]*=)")


def parse_graph(text: str) -> onnx.GraphProto:
    """Returns the graph of `text`."""
    graph = onnx.parser.parse_graph(_NAME.sub("", text))
    _name_nodes(text, graph)
    return graph


def parse_model(text: str) -> onnx.ModelProto:
    """Returns the model of `text`."""
    model = onnx.parser.parse_model(_NAME.sub("", text))
    _name_nodes(text, model.graph, *model.functions)
    return model


def _name_nodes(text: str, *parts: onnx.GraphProto | onnx.FunctionProto) -> None:
    """Gives each name to the next node of the text, bodies included, that writes the output behind the name."""
    nodes = (node for part in parts for node in _nodes(part))
    for name, output in _NAME.findall(text):
        next(node for node in nodes if node.output[0] == output).name = name


def _nodes(part: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """Yields the nodes in the order of the text."""
    for node in part.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)
