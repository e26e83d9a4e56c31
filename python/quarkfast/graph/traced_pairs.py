"""Which tensors of a float model the pairs of a quantized one stand for, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, name_of
from quarkfast.graph.written_codes import Codes, codes_of_pair, is_dequantize, is_pair

__all__ = ["TracedPair", "traced_pairs"]

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
