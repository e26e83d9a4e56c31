"""Outputs that a ranking has put in order, such as the boxes of a detector that ends in TopK, before the ranking."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from quarkfast.graph.operators import (
    DEQUANTIZERS,
    LAYERS,
    QUANTIZERS,
    RANKING,
    REARRANGERS,
    RECURRENT,
    SCORE_READERS,
    SHAPE_READERS,
)

__all__ = ["judge_unranked"]


# What computes with weights. Behind a ranking in the middle of a model, as that of proposals, outputs tell of them.
_PRODUCTS = LAYERS | RECURRENT

_ROUNDING = QUANTIZERS | DEQUANTIZERS


def judge_unranked(model: onnx.ModelProto) -> onnx.ModelProto:
    """Makes what a ranking takes its results from the outputs of a model, in place of these results.

    A detector that ends in TopK or NonMaxSuppression gives its boxes in the order of their scores. Two scores that
    differ by less than a rounding change places, and most rows are background with scores near zero: two models that
    find the same objects give rows that have nothing to do with each other. All boxes and all scores, in the order of
    the anchors, tell how close the models are.

    What TopK, NonMaxSuppression, NonZero and the like read, and what is gathered by what they give, counts in place of
    each output behind them. An output behind a product with weights stays. Of models that differ in rounding alone the
    outputs are the same ones in the same order.

    Args:
        model: The model; it is changed.

    Returns:
        `model`.

    Example:
        >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 17]>
        ...     g (float[8] x, int64[1] k) => (float[k] y) { s = Sigmoid (x) y, i = TopK (s, k) }''')
        >>> [output.name for output in judge_unranked(model).graph.output]
        ['s']
    """
    ranked = _ranked(model.graph)
    if not ranked:
        return model
    makers = {name: node for node in model.graph.node for name in node.output if name}
    names: dict[str, str] = {}
    for output in model.graph.output:
        sources = _unranked(output.name, makers, ranked, names) if ranked.get(output.name) else {}
        names |= sources or {output.name: output.name}
    kept = {output.name: output for output in model.graph.output}
    outputs = [kept.get(name, onnx.ValueInfoProto(name=name)) for name in names.values()]
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    return model


def _ranked(graph: onnx.GraphProto) -> dict[str, bool]:
    """Returns tensors that depend on values of the inputs -> whether a ranking is on the way; nothing without one."""
    if not any(node.op_type in RANKING for node in graph.node):
        return {}
    constants = {tensor.name for tensor in graph.initializer}
    found = {value.name: False for value in graph.input if value.name not in constants}
    for node in graph.node:
        behind = [found[name] for name in node.input if name in found and node.op_type not in SHAPE_READERS]
        if behind:
            found |= dict.fromkeys(node.output, any(behind) or node.op_type in RANKING)
    return found if any(found.values()) else {}


def _unranked(
    output: str, makers: Mapping[str, onnx.NodeProto], ranked: Mapping[str, bool], known: Mapping[str, str]
) -> dict[str, str]:
    """Returns what a ranking takes an output from, by what it is without rounding; nothing for one that stays."""
    found, waiting, seen = dict[str, str](), [output], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in ranked:
            continue
        seen.add(name)
        if not ranked[name]:
            told = _told_of(name, makers, ranked)
            if told in makers:  # and no input of the model, such as the size of the image
                found.setdefault(_unrounded(told, makers), told)
            continue
        if makers[name].op_type in _PRODUCTS:
            return {}
        waiting += reversed(makers[name].input)
    return {key: known.get(key, told) for key, told in found.items()}


def _told_of(name: str, makers: Mapping[str, onnx.NodeProto], ranked: Mapping[str, bool]) -> str:
    """Returns the scores that a ranking reads the maximum of, or compares."""
    source = name
    while source in makers and makers[source].op_type in REARRANGERS | _ROUNDING | SCORE_READERS:
        maker = makers[source]
        source = next(each for each in maker.input if each in ranked)
        if maker.op_type in SCORE_READERS:
            name = source
    return name


def _unrounded(name: str, makers: Mapping[str, onnx.NodeProto]) -> str:
    while name in makers and makers[name].op_type in _ROUNDING:
        name = makers[name].input[0]
    return name
