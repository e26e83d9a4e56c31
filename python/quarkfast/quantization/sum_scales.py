"""Sums with power-of-two scales: a term is rounded once, to the step of the result, where the other term has it too."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from quarkfast import formats
from quarkfast.deferred import ir
from quarkfast.graph.access import is_read_once, is_standard, name_of
from quarkfast.graph.placement import ConstantSlot, Edge, Placement, Quantizer

__all__ = ["round_terms_once"]

_SUMS = ("Add", "Sub")

# What may be computed along with a sum, in front of the pair of its result: it maps the steps of a scale to steps.
_LIMITERS = ("Clip", "Relu")


def round_terms_once(
    model: ir.Model,
    placement: Placement,
    quantizers: Mapping[str, Quantizer],
    constants: Mapping[ConstantSlot, Quantizer],
    one_scale: Collection[str],
) -> dict[str, Quantizer]:
    """Returns quantizers in which some terms of sums have the scale of the result instead of a finer one of their own.

    Scales are powers of two. Where the other term has the scale of the result or a coarser one, it is a multiple of
    that step, and the sum is rounded just as the first term alone would be: finely rounded before, it is rounded twice.
    With the scale of the result it is rounded once, and does not saturate earlier. Sums take their turns from the end
    of the graph, since one may be a term of the next. A term keeps its scale if something else reads it, if it shares
    it with other tensors, or if the user gave its range.

    Args:
        model: The prepared model.
        placement: What is quantized.
        quantizers: Those of activations, by the tensors whose scales others take.
        constants: Those of constants.
        one_scale: Operators of the standard whose inputs and output the target gives one scale.
    """
    found, followers = dict(quantizers), Counter(placement.activations.values())
    slots = {edge: quantizer for slot, quantizer in constants.items() for edge in slot.edges}

    def quantizer_of(value: ir.Value | None) -> Quantizer | None:
        return found.get(placement.activations.get(name_of(value), ""))

    for node in reversed(model.graph):
        if not is_standard(node) or node.op_type not in _SUMS:
            continue
        result = quantizer_of(_result(node, placement))
        terms = [
            quantizer_of(value) or slots.get(Edge(name_of(node), index)) for index, value in enumerate(node.inputs)
        ]
        for value, own, other in zip(node.inputs, terms, terms[::-1], strict=True):
            name = name_of(value)
            free = name in found and name not in placement.fixed and followers[name] == 1
            if free and _stands_alone(value, one_scale) and _is_rounded_twice(own, other, result):
                assert own is not None
                assert result is not None
                found[name] = replace(own, scale=result.scale)
    return found


def _result(node: ir.Node, placement: Placement) -> ir.Value:
    """Returns the tensor with the pair of a sum's result: its output, or what is computed along with it."""
    output = node.outputs[0]
    readers = [reader for reader, _ in output.uses()]
    if name_of(output) in placement.activations or len(readers) != 1 or output.is_graph_output():
        return output
    return readers[0].outputs[0] if is_standard(readers[0]) and readers[0].op_type in _LIMITERS else output


def _stands_alone(value: ir.Value | None, one_scale: Collection[str]) -> bool:
    """Whether a sum alone reads `value`, and what computes it lets it have another scale than its inputs."""
    producer = None if value is None else value.producer()
    return value is not None and is_read_once(value) and producer is not None and producer.op_type not in one_scale


def _is_rounded_twice(own: Quantizer | None, other: Quantizer | None, result: Quantizer | None) -> bool:
    steps = _step(own), _step(other), _step(result)
    return steps[0] < steps[2] <= steps[1] < math.inf


def _step(quantizer: Quantizer | None) -> float:
    """Returns the step of integers whose one scale is a power of two; infinity for all else."""
    if quantizer is None or quantizer.scale.size != 1 or not formats.find(quantizer.dtype).is_integer:
        return math.inf
    scale = float(quantizer.scale.reshape(()))
    return scale if math.frexp(scale)[0] == 0.5 else math.inf
