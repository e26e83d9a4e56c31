"""Pairs of a quantized model beside the tensors of the float one, and a copy of it in which some are finer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, name_of
from quarkfast.graph.builder import GraphBuilder
from quarkfast.graph.operators import SCALE_KEEPERS, find_operator
from quarkfast.graph.written_codes import Codes, codes_of_pair, is_dequantize, is_pair

__all__ = ["TracedPair", "traced_pairs", "with_finer_pairs"]

# What quarkfast, Quark, ONNX Runtime and onnxsim put behind the name of a tensor that they quantize.
_SUFFIXES = (
    *("_DequantizeLinear_Output", "_QuantizeLinear_Input", "_QuantizeLinear_Output", "_quantized", "_dequantized"),
    *("_DequantizeLinear", "_QuantizeLinear"),
)


class TracedPair(NamedTuple):
    """A tensor that is rounded to codes.

    Attributes:
        tensor: Its name in the float model; that in the quantized one where the float model has none.
        original: The tensor of the float model; None where it has none.
        codes: Type, scales and, of a constant, contents of the codes.
        rounded: What the DequantizeLinear gives.
        exact: What the QuantizeLinear reads; None of a constant.
        dequantize: The DequantizeLinear.
    """

    tensor: str
    original: ir.Value | None
    codes: Codes
    rounded: ir.Value
    exact: ir.Value | None
    dequantize: ir.Node


def traced_pairs(model: ir.Model, known: Mapping[str, ir.Value]) -> Iterator[TracedPair]:
    """Yields every tensor of the graph of `model` that is rounded to codes once, in the order of the model.

    Activations are found by their names, with or without what tools put behind them. Constants are what the node of the
    float model reads at the same place whose output has the same name, else found by their names too. Pairs whose scale
    is computed as the model runs, as dynamic quantization writes them, are left out.

    Args:
        model: A quantized model.
        known: Tensors of the float model by name.
    """
    seen = set()
    for node in model.graph:
        codes = codes_of_pair(node) if is_dequantize(node) else None
        if codes is None or codes.tensor in seen:
            continue
        seen.add(codes.tensor)
        source = node.inputs[0]
        quantize = None if source is None else source.producer()
        exact = quantize.inputs[0] if quantize is not None and is_pair(quantize) else None
        if exact is None and codes.values is None:
            continue
        original = None if exact is not None else _read_at_the_same_place(node.outputs[0], known)
        original = original or _by_name((exact, source, node.outputs[0]), known)
        name = name_of(original or exact or node.outputs[0])
        yield TracedPair(name, original, codes, node.outputs[0], exact, node)


def _by_name(values: Iterable[ir.Value | None], known: Mapping[str, ir.Value]) -> ir.Value | None:
    return next((known[name] for value in values if value is not None for name in _names(value) if name in known), None)


def _names(value: ir.Value) -> Iterator[str]:
    """Yields names that a tensor may have in the float model, the likeliest first."""
    name = name_of(value)
    yield name
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            yield name.removesuffix(suffix)


def _read_at_the_same_place(value: ir.Value, known: Mapping[str, ir.Value]) -> ir.Value | None:
    """Returns the constant that a node of the float model reads where its counterpart reads `value`."""
    for node, index in value.uses():
        original = _by_name(node.outputs[:1], known)
        producer = None if original is None else original.producer()
        if producer is not None and producer.op_type == node.op_type and index < len(producer.inputs):
            read = producer.inputs[index]
            if read is not None and is_constant(read):
                return read
    return None


_DOMAIN = "com.microsoft"  # where Q/DQ have 16 bits whatever the operator set
_LARGEST = 2**15 - 1
# A bias that differs from the float model's by no more than its rounding, of which float32 adds a little, is that one.
_HALF = 0.5 + 2**-10

Values = NDArray[np.float64]


def with_finer_pairs(
    model: ir.Model, known: Mapping[str, ir.Value], names: Collection[str], cut: Collection[str] = ()
) -> ir.Model:
    """Returns a copy of `model` in which tensors of these names are int16 over the same range.

    1. What an operator makes of such a tensor by moving it goes with it, where it has the same scale and zero point.
    2. A weight becomes the nearest to that of the float model, and its layer has the bias of the float model: none that
       makes up for rounded weights. Behind a finer activation a bias has finer steps too, unless it differs from the
       float model's by more than its rounding: then nobody knows what was rounded, and its codes stay.
    3. Types that are no integers of 8 bits or fewer, blocks, and activations that `cut` names are read as they were
       before they were rounded.

    Args:
        model: A quantized model, without local functions.
        known: Tensors of the float model by name.
        names: Names of tensors as `quarkfast.graph.traced_pairs` finds them.
        cut: Those whose range was cut for their narrow type.
    """
    copy = model.clone()
    builder = GraphBuilder(copy)
    pairs = {pair.rounded: pair for pair in traced_pairs(copy, known)}
    chosen: dict[ir.Value, Values | None] = {}
    for pair in (each for each in pairs.values() if each.tensor in names):
        ratio = None if pair.tensor in cut else _ratio(pair)
        chosen |= dict.fromkeys((each.rounded for each in (pair, *_moved(pair, pairs))), ratio)
    finer = {value: ratio for first, ratio in chosen.items() for value in _rounded(pairs[first])}
    for node in tuple(copy.graph):
        _refine_bias(node, finer, pairs, builder)
    for first, ratio in chosen.items():
        pair, rounded = pairs[first], _rounded(pairs[first])
        value = _read(pair, ratio, builder) if ratio is None or pair.exact is None else _insert(pair, ratio, builder)
        if value is not None:
            ir.convenience.replace_all_uses_with(rounded, [value] * len(rounded), replace_graph_outputs=True)
    copy.graph.opset_imports.setdefault(_DOMAIN, 1)
    return copy


def _ratio(pair: TracedPair) -> Values | None:
    """Returns the scale of int16 over the range of narrower codes, as a part of theirs; None where there is none."""
    codes = pair.codes
    scale, zero = codes.scale.astype(np.float64), np.float64(0) if codes.zero_point is None else codes.zero_point
    if codes.dtype is None or not codes.dtype.is_integer() or codes.dtype.bitwidth > 8:
        return None
    if scale.ndim > 1 or (pair.exact is not None and scale.size > 1):
        return None
    if (np.frexp(scale)[0] == 0.5).all():
        return np.full(scale.shape, 2.0 ** (codes.dtype.bitwidth - 16))
    least = -(2.0 ** (codes.dtype.bitwidth - 1)) if codes.dtype.is_signed() else 0.0
    largest = least + 2.0**codes.dtype.bitwidth - 1
    symmetric = (zero == 0) & (least < 0)
    reach: Values = np.where(symmetric, largest, np.maximum(zero - least, largest - zero))
    return reach / _LARGEST


def _refine_bias(
    node: ir.Node, finer: Mapping[ir.Value, Values | None], pairs: Mapping[ir.Value, TracedPair], builder: GraphBuilder
) -> None:
    """Gives a layer that reads something finer the bias that it would have."""
    operator = find_operator(node)
    if operator is None or operator.bias is None or operator.bias >= len(node.inputs):
        return
    data, weight, bias = (node.inputs[index] for index in (0, operator.weight, operator.bias))
    pair = None if bias is None else pairs.get(bias)
    if pair is None or pair.exact is not None or pair.original is None or not {data, weight} & finer.keys():
        return
    scale, wanted = pair.codes.scale.astype(np.float64), array_of(pair.original)
    if weight not in finer and not _is_nearest(pair, wanted):
        return
    for ratio in (finer[each] for each in (data, weight) if each is not None and each in finer):
        scale = scale * (0.0 if ratio is None else ratio)
    exact = wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        values = np.where(scale > 0, np.rint(exact / scale) * scale, exact)
    node.replace_input_with(operator.bias, builder.initializer(f"{pair.tensor}_finer", values.astype(np.float32)))


def _is_nearest(pair: TracedPair, wanted: NDArray[Any]) -> bool:
    """Whether the codes of a bias are the nearest to what it was."""
    assert pair.codes.values is not None
    codes, scale = array_of(pair.codes.values).astype(np.float64), pair.codes.scale.astype(np.float64)
    return codes.shape == wanted.shape and bool((np.abs(codes * scale - wanted) <= _HALF * scale).all())


def _insert(pair: TracedPair, ratio: Values, builder: GraphBuilder) -> ir.Value:
    """Writes a pair of int16 beside another and returns what it gives."""
    name, scale = f"{pair.tensor}_finer", (pair.codes.scale.astype(np.float64) * ratio).astype(np.float32)
    given = [builder.initializer(name, each) for each in (scale.reshape(()), np.array(0, np.int16))]
    quantize = builder.call(ir.node("QuantizeLinear", [pair.exact, *given], domain=_DOMAIN), name)
    dequantize = builder.call(ir.node("DequantizeLinear", [quantize.outputs[0], *given], domain=_DOMAIN), name)
    builder.graph.insert_before(pair.dequantize, [quantize, dequantize])
    return dequantize.outputs[0]


def _read(pair: TracedPair, ratio: Values | None, builder: GraphBuilder) -> ir.Value | None:
    """Returns an activation as it was before it was rounded, or a constant in finer steps; None of an unknown one."""
    if pair.exact is not None or pair.original is None:
        return pair.exact
    values = array_of(pair.original)
    if ratio is not None:
        scale = pair.codes.scale.astype(np.float64) * ratio
        if scale.size > 1:
            axis = pair.dequantize.attributes.get_int("axis", 1)
            scale = np.expand_dims(scale, [each for each in range(values.ndim) if each != axis % values.ndim])
        values = (np.clip(np.rint(values / scale), -_LARGEST - 1, _LARGEST) * scale).astype(np.float32)
    return builder.initializer(f"{pair.tensor}_finer", values)


def _rounded(pair: TracedPair) -> list[ir.Value]:
    """Returns what every DequantizeLinear makes of the codes: readers may have one each."""
    codes = pair.dequantize.inputs[0]
    assert codes is not None
    return [node.outputs[0] for node, _ in codes.uses() if is_dequantize(node)]


def _moved(pair: TracedPair, pairs: Mapping[ir.Value, TracedPair]) -> Iterator[TracedPair]:
    """Yields the pairs of what operators make of a tensor by moving it, if they have its scale."""
    waiting = [pair]
    while waiting:
        one = waiting.pop()
        uses = [use for rounded in _rounded(one) for use in rounded.uses()]
        moves = [node for node, index in uses if index == 0 and node.op_type in SCALE_KEEPERS and is_standard(node)]
        behind = (each for node in moves for output in node.outputs for each in _pairs_behind(output, pairs))
        alike = [each for each in behind if _is_alike(one.codes, each.codes)]
        yield from alike
        waiting += alike


def _pairs_behind(value: ir.Value, pairs: Mapping[ir.Value, TracedPair]) -> list[TracedPair]:
    readers = (reader for quantize, _ in value.uses() for reader, _ in quantize.outputs[0].uses())
    return [pairs[each.outputs[0]] for each in readers if each.outputs and each.outputs[0] in pairs]


def _is_alike(one: Codes, other: Codes) -> bool:
    zeros = [np.zeros(()) if each.zero_point is None else each.zero_point for each in (one, other)]
    return one.dtype == other.dtype and np.array_equal(one.scale, other.scale) and np.array_equal(zeros[0], zeros[1])
