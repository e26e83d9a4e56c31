"""A quantized model that was widened from float16 becomes one that computes in float16 again."""

from __future__ import annotations

import numpy as np

from quarkfast.deferred import ir
from quarkfast.errors import UnsupportedError
from quarkfast.graph.access import array_of, is_constant, is_standard, name_of
from quarkfast.graph.notes import drop_note
from quarkfast.graph.subgraphs import graphs_of, nodes_of
from quarkfast.transforms.float_types import change_float_type
from quarkfast.transforms.infer_types import infer_types
from quarkfast.transforms.remove_identities import remove_identities
from quarkfast.transforms.widen_half import WIDENED

__all__ = ["check_half", "narrow_half"]

_HALF, _FLOAT = ir.DataType.FLOAT16, ir.DataType.FLOAT
_LARGEST = float(np.finfo(np.float16).max)
_PAIRS = ("QuantizeLinear", "DequantizeLinear")


def check_half(model: ir.Model) -> None:
    """Makes sure that a float model computes in float16 and nowhere in float32; its types become known.

    Constants may be float32, since the scales of Resize always are; and so may inputs and outputs behind a Cast.

    Raises:
        UnsupportedError: If it does not.
    """
    infer_types(model)
    values = [value for node in nodes_of(model.graph) for value in node.outputs]
    values += [value for graph in graphs_of(model) for value in graph.inputs if not is_constant(value)]
    wide = next((value for value in values if value.dtype == _FLOAT and not _is_end(value)), None)
    if wide is not None or not any(value.dtype == _HALF for value in values):
        got = "one without float16" if wide is None else f"float32 in tensor {name_of(wide)!r}"
        raise UnsupportedError(
            f"float16_scales: expected a model that computes in float16 throughout, got {got}; leave the option out"
        )


def narrow_half(model: ir.Model) -> bool:
    """Rewrites a quantized float32 model to float16, in place.

    1. Float constants become float16, and so do the tensors between pairs, the scales and the types of Casts; Casts
       that then change nothing go.
    2. What takes float32 alone (scales of Resize) stays; operators without float16 stand between Casts.

    Needs a model whose scales are numbers of float16. Error: one rounding of each float constant, half to even, and
    what float16 rounds between operators. Codes change nowhere: onnxruntime divides and multiplies by scales in
    float32, which holds float16 exactly.

    Raises:
        UnsupportedError: If a scale is no number of float16, or a constant is above its largest.
    """
    infer_types(model)
    _check_scales(model)
    _check_constants(model)
    change_float_type(model, _FLOAT, _HALF, keep_ends=True)
    for node in nodes_of(model.graph):
        source = node.inputs[0] if node.inputs else None
        if node.op_type != "Cast" or not is_standard(node) or source is None or source.dtype is None:
            continue
        if int(source.dtype) == node.attributes.get_int("to"):
            node.op_type = "Identity"
            node.attributes.clear()
    remove_identities(model)
    drop_note(model, WIDENED)
    return True


def _is_end(value: ir.Value) -> bool:
    """Whether `value` is an input that only Casts to float16 read, or an output that a Cast of float16 gives."""
    producer = value.producer()
    if producer is None:
        return all(node.op_type == "Cast" and node.outputs[0].dtype == _HALF for node, _ in value.uses())
    source = producer.inputs[0] if producer.op_type == "Cast" else None
    return source is not None and source.dtype == _HALF and not value.uses()


def _check_scales(model: ir.Model) -> None:
    for node in nodes_of(model.graph):
        if node.op_type not in _PAIRS or not is_constant(node.inputs[1]):
            continue
        scale = array_of(node.inputs[1])
        with np.errstate(over="ignore"):
            lost = scale.astype(np.float16).astype(np.float64) != scale
        if lost.any():
            raise UnsupportedError(
                f"float16_scales: node {name_of(node)!r}: expected scales that float16 holds, "
                f"got {scale[lost].flat[0]}; leave the option out"
            )


def _check_constants(model: ir.Model) -> None:
    for value in (each for graph in graphs_of(model) for each in graph.initializers.values()):
        if not is_constant(value) or value.dtype != _FLOAT:
            continue
        array = array_of(value)
        large = np.isfinite(array) & (np.abs(array) > _LARGEST)
        if large.any():
            raise UnsupportedError(
                f"float16_scales: constant {name_of(value)!r}: expected at most {_LARGEST:.0f}, "
                f"got {array[large].flat[0]}; leave the option out"
            )
