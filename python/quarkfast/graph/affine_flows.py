"""Which operators an affine step passes through, so that it has the same effect in front of them as behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard
from quarkfast.graph.affine import Affine, Shape, dims_of

__all__ = ["parts_of_concat", "pass_backward", "pass_forward"]


def pass_backward(node: ir.Node, affine: Affine) -> Affine | None:
    """Returns the step in front of `node` that has the effect of `affine` behind it, or None if there is none."""
    flow = _flow_of(node)
    return None if flow is None else flow(node, affine, False)


def pass_forward(node: ir.Node, affine: Affine) -> Affine | None:
    """Returns the step behind `node` that has the effect of `affine` in front of it, or None if there is none."""
    flow = _flow_of(node)
    return None if flow is None else flow(node, affine, True)


def parts_of_concat(concat: ir.Node, affine: Affine) -> list[Affine]:
    """Returns the part of a step behind a Concat that each of its inputs gets; none where that cannot be said."""
    if affine.axis is None:
        return [affine] * len(concat.inputs)
    dims = dims_of(concat.outputs[0])
    if dims is None:
        return []
    axis = concat.attributes.get_int("axis", 0)
    if affine.axis != (axis if axis < 0 else axis - len(dims)):
        return [affine] * len(concat.inputs)
    sizes = [(dims_of(value) or ())[affine.axis :][:1] if value is not None else () for value in concat.inputs]
    if any(not size or size[0] is None for size in sizes):
        return []
    ends = np.cumsum([size[0] for size in sizes])[:-1]
    factors, offsets = (
        [each] * len(sizes) if each.size == 1 else np.split(each, ends) for each in (affine.factor, affine.offset)
    )
    return [Affine(*each, affine.axis) for each in zip(factors, offsets, strict=True)]


_Flow = Callable[[ir.Node, Affine, bool], Affine | None]


def _flow_of(node: ir.Node) -> _Flow | None:
    alone = not any(output.uses() or output.is_graph_output() for output in node.outputs[1:])
    return _FLOWS.get(node.op_type) if alone and is_standard(node) else None


def _as_it_is(node: ir.Node, affine: Affine, forward: bool) -> Affine | None:
    return affine


def _scaled_alone(node: ir.Node, affine: Affine, forward: bool) -> Affine | None:
    """An activation function that a positive factor passes through, and no offset."""
    return affine if affine.keeps_order and not affine.has_offset else None


def _in_order(node: ir.Node, affine: Affine, forward: bool) -> Affine | None:
    return affine if affine.keeps_order else None


def _average(node: ir.Node, affine: Affine, forward: bool) -> Affine | None:
    """A mean over places, of which those of padding may be zeros."""
    counted = node.attributes.get_int("count_include_pad", 0)
    return affine if not affine.has_offset or not counted else None


def _uniform(node: ir.Node, affine: Affine, forward: bool) -> Affine | None:
    """Places move, along the channels' axis as well."""
    return affine if affine.axis is None else None


def _dropout(node: ir.Node, affine: Affine, forward: bool) -> Affine | None:
    trains = len(node.inputs) > 2 and node.inputs[2] is not None
    return None if trains else affine


def _pad(node: ir.Node, affine: Affine, forward: bool) -> Affine | None:
    """Copies of what is there, or zeros, which no factor changes."""
    if affine.axis is not None:
        return None
    if node.attributes.get_string("mode", "constant") != "constant":
        return affine
    value = node.inputs[2] if len(node.inputs) > 2 else None
    zero = value is None or (is_constant(value) and not array_of(value).any())
    return affine if zero and not affine.has_offset else None


def _transpose(node: ir.Node, affine: Affine, forward: bool) -> Affine | None:
    if affine.axis is None:
        return affine
    perm = tuple(node.attributes.get_ints("perm", ()))
    if not perm:
        dims = _side(node, forward)
        if dims is None:
            return None
        perm = tuple(reversed(range(len(dims))))
    place = affine.axis + len(perm)
    return replace(affine, axis=(perm.index(place) if forward else perm[place]) - len(perm))


def _mean(node: ir.Node, affine: Affine, forward: bool) -> Affine | None:
    """A mean over axes; those of the channels must not be among them."""
    if affine.axis is None:
        return affine
    dims = _side(node, True)
    axes = node.attributes.get_ints("axes", ()) if "axes" in node.attributes else _constant_ints(node)
    if dims is None or not axes or not node.attributes.get_int("keepdims", 1):
        return None
    reduced = {axis if axis < 0 else axis - len(dims) for axis in axes}
    return None if affine.axis in reduced else affine


def _constant_ints(node: ir.Node) -> tuple[int, ...]:
    value = node.inputs[1] if len(node.inputs) > 1 else None
    return tuple(array_of(value).tolist()) if is_constant(value) else ()


def _side(node: ir.Node, source: bool) -> Shape | None:
    value = node.inputs[0] if source else node.outputs[0]
    return None if value is None else dims_of(value)


def _reshape(node: ir.Node, affine: Affine, forward: bool) -> Affine | None:
    """Places keep their order; a channel is found again by how many places it spans, and how many channels there are.

    ``[N, C, H, W]`` as ``[N, C * H * W]`` repeats the number of each channel ``H * W`` times.
    """
    if affine.axis is None:
        return affine
    source, target = _side(node, forward), _side(node, not forward)
    if source is None or target is None:
        return None
    span, period = _spans(source, affine.axis)
    if span is None or period is None:
        return None
    for axis in range(-1, -1 - len(target), -1):
        other, length = _spans(target, axis)
        if other is None or length != period:
            continue
        if span % other == 0:
            return _repeated(affine, span // other, axis)
        if other % span == 0:
            return _thinned(affine, other // span, axis)
    return None


def _spans(dims: Shape, axis: int) -> tuple[int | None, int | None]:
    """Returns how many places lie between an axis's neighbours, and how many the axis spans; None where unknown."""
    inner: int | None = 1
    for size in dims[len(dims) + axis + 1 :]:
        inner = None if inner is None or size is None else inner * size
    own = dims[axis]
    return inner, None if inner is None or own is None else inner * own


def _repeated(affine: Affine, times: int, axis: int) -> Affine:
    factor, offset = (each if each.size == 1 else each.repeat(times) for each in (affine.factor, affine.offset))
    return Affine(factor, offset, axis)


def _thinned(affine: Affine, times: int, axis: int) -> Affine | None:
    blocks = [each if each.size == 1 else each.reshape(-1, times) for each in (affine.factor, affine.offset)]
    if any(each.ndim > 1 and (each != each[:, :1]).any() for each in blocks):
        return None
    factor, offset = (each if each.ndim == 1 else each[:, 0] for each in blocks)
    return Affine(factor, offset, axis)


def _squeeze(node: ir.Node, affine: Affine, forward: bool) -> Affine | None:
    """Axes of one place come and go; their number behind the channels' counts."""
    if affine.axis is None:
        return affine
    source, target = _side(node, True), _side(node, False)
    axes = node.attributes.get_ints("axes", ()) if "axes" in node.attributes else _constant_ints(node)
    if source is None or target is None or not axes:
        return None
    wide = max(len(source), len(target))
    dropped = {axis % wide for axis in axes}
    kept = [place for place in range(wide) if place not in dropped]
    to_narrow = forward == (node.op_type == "Squeeze")
    if to_narrow:
        place = affine.axis + wide
        return replace(affine, axis=kept.index(place) - len(kept)) if place in kept else None
    return replace(affine, axis=kept[affine.axis + len(kept)] - wide)


def _resize(node: ir.Node, affine: Affine, forward: bool) -> Affine | None:
    """Interpolation whose weights add up to 1."""
    outside = node.attributes.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    cubic = node.attributes.get_string("mode", "nearest") == "cubic"
    return None if outside or cubic or affine.axis is not None else affine


_FLOWS: Mapping[str, _Flow] = MappingProxyType(
    {
        "AveragePool": _average,
        "DepthToSpace": _uniform,
        "Dropout": _dropout,
        "Expand": _uniform,
        "Flatten": _reshape,
        "GlobalAveragePool": _as_it_is,
        "GlobalMaxPool": _in_order,
        "Identity": _as_it_is,
        "LeakyRelu": _scaled_alone,
        "MaxPool": _in_order,
        "Pad": _pad,
        "ReduceMean": _mean,
        "Relu": _scaled_alone,
        "Reshape": _reshape,
        "Resize": _resize,
        "Slice": _uniform,
        "SpaceToDepth": _uniform,
        "Squeeze": _squeeze,
        "Tile": _uniform,
        "Transpose": _transpose,
        "Unsqueeze": _squeeze,
    }
)
"""Operator -> how an affine step passes through it: from what is behind it to what is in front, or forward."""
