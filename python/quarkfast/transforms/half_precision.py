"""Half precision: float16 models that compute in float32, results that become float16, ends that become float32."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quarkfast.deferred import ir
from quarkfast.errors import UnsupportedError
from quarkfast.graph.access import array_of, is_constant, is_standard, name_of
from quarkfast.graph.notes import add_note, drop_note
from quarkfast.graph.operators import TYPE_KEEPERS
from quarkfast.graph.subgraphs import graphs_of, nodes_of
from quarkfast.transforms.clean import remove_identities
from quarkfast.transforms.float_types import change_float_type
from quarkfast.transforms.infer_types import infer_types
from quarkfast.transforms.pairs import remove_pairs

__all__ = ["WIDENED", "check_half", "narrow_half", "widen_ends", "widen_half"]

WIDENED = "the model was float16: it computes in float32 now, and its inputs and outputs keep their types"

_FLOAT, _HALF, _BFLOAT16 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16


def widen_half(model: ir.Model) -> bool:
    """Rewrites a float16 model to float32, in place; returns whether it was one.

    1. It is one if an operator of the standard computes in float16 (Casts and what moves values do not), in the model's
       own graph, and no operator of another domain reads or gives it.
    2. Initializers and constants of float16 become float32 of the same values; so do the types of tensors, and the
       types that attributes name.
    3. Graph inputs and outputs keep names and types; each of float16 gets a Cast behind or in front of it.

    Quantizers' operators take float32 scales, and their arithmetic is float32 on every target. Idempotent. Error:
    none in the values of constants; results are more precise by what float16 rounded between operators.
    """
    if not _may_be_half(model):
        return False
    infer_types(model)
    giving = [node for node in model.graph if any(value.dtype == _HALF for value in node.outputs)]
    reading = [node for node in model.graph if any(value is not None and value.dtype == _HALF for value in node.inputs)]
    if all(node.op_type in TYPE_KEEPERS for node in giving) or not all(map(is_standard, (*giving, *reading))):
        return False
    change_float_type(model, _HALF, _FLOAT, keep_ends=True)
    add_note(model, WIDENED)
    return True


def _may_be_half(model: ir.Model) -> bool:
    values = (*model.graph.inputs, *model.graph.initializers.values())
    return any(value.dtype == _HALF for value in values) or any(map(_gives_half, model.graph))


def _gives_half(node: ir.Node) -> bool:
    return node.op_type == "Cast" and node.attributes.get_int("to") == _HALF


def widen_ends(model: ir.Model) -> bool:
    """Has everything in 16-bit floats be float32, in place; returns whether there was anything.

    Casts that do nothing then go, and so do pairs, of Casts or of Quark's nodes, that round float32 to such a type and
    back. Values of constants stay as they are; types are known beforehand and afterwards. Idempotent; error: what
    operators round to 16 bits no more.
    """
    before = {value.dtype for value in _values(model)}
    remove_pairs(model, floats_alone=True)
    for narrow in (_HALF, _BFLOAT16):
        change_float_type(model, narrow, _FLOAT, keep_ends=False)
    _drop_idle_casts(model)
    infer_types(model)
    return bool(before & {_HALF, _BFLOAT16})


def _values(model: ir.Model) -> Iterator[ir.Value]:
    yield from model.graph.inputs
    yield from model.graph.initializers.values()
    for node in model.graph:
        yield from node.outputs


def _drop_idle_casts(model: ir.Model) -> None:
    """Removes Casts from float32 to float32."""
    for node in model.graph:
        value = node.inputs[0] if node.inputs else None
        if node.op_type == "Cast" and value is not None and value.dtype == _FLOAT == node.attributes.get_int("to"):
            node.op_type = "Identity"
            node.attributes.clear()
    remove_identities(model)


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
