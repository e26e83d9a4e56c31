"""Portable weights: codes whose sums of products fit 16 bits, as kernels for processors without VNNI add them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.formats.scalar import qtype
from quarkfast.graph.access import array_of, is_standard, name_of, shape_of, tensor_of
from quarkfast.graph.operators import PAIRED_PRODUCTS, is_recurrent
from quarkfast.graph.placement import ConstantSlot, Edge, Pairs, Placement, Quantizer, Reduction
from quarkfast.qparams import HIGHEST, Order, grow_scales, overflowing_pairs, rows_of
from quarkfast.quantization.codes import codes_of, scale_along, zero_point_along
from quarkfast.quantization.plan import Plan, QuantizedBlocks
from quarkfast.ranges.decibels import decibels
from quarkfast.targets import Target
from quarkfast.wording import counted, first_names

__all__ = [
    "Int8Layer",
    "channel_axes",
    "integer_layers",
    "is_portable",
    "make_portable",
    "overflows",
    "saturation_note",
]


class Int8Layer(NamedTuple):
    """A layer that onnxruntime computes on int8 weights.

    Attributes:
        slot: Its weight.
        node: Its name.
        data: Name of the tensor that it multiplies with the weight; empty for the state of a recurrent layer.
        axis: The axis of that tensor's channels, which the layer sums over.
        order: How the weight lies.
        groups: Number of groups of a convolution.
    """

    slot: ConstantSlot
    node: str
    data: str
    axis: int
    order: Order
    groups: int = 1


def integer_layers(model: ir.Model, placement: Placement, scheme: Scheme) -> Iterator[Int8Layer]:
    """Yields the layers whose products a processor without VNNI adds in pairs: 8-bit activations, int8 weights.

    Depthwise convolutions go another way; so do the convolutions of the dynamic encoding, whose weights are uint8. That
    has both weights of an LSTM, too.
    """
    nodes, dynamic = {name_of(node): node for node in model.graph}, scheme.encoding == "dynamic"
    for slot in placement.constants:
        row = slot.spec.format
        for edge in slot.edges if slot.role == "weight" and row.integer_operators and row.signed else ():
            node = nodes[edge.node]
            if dynamic and is_recurrent(node):
                yield Int8Layer(slot, edge.node, name_of(node.inputs[0]) if edge.index == 1 else "", -1, "rows")
            if edge.index != 1 or not is_standard(node) or node.op_type not in PAIRED_PRODUCTS:
                continue
            data = name_of(node.inputs[0])
            if not (node.op_type != "Conv" if dynamic else _reads_bytes(data, Edge(edge.node, 0), placement)):
                continue
            layer = _layer(slot, node, data)
            depthwise = layer.groups > 1 and shape_of(tensor_of(node.inputs[1]))[1] == 1
            if not depthwise:
                yield layer


def _reads_bytes(data: str, edge: Edge, placement: Placement) -> bool:
    spec = placement.specs.get(placement.activations.get(data, ""))
    return spec is not None and spec.format.integer_operators and edge not in placement.float_edges


def _layer(slot: ConstantSlot, node: ir.Node, data: str) -> Int8Layer:
    name = name_of(node)
    if node.op_type == "Conv":
        return Int8Layer(slot, name, data, 1, "kernel", node.attributes.get_int("group", 1))
    if node.op_type == "MatMul":
        return Int8Layer(slot, name, data, -1, "columns")
    order: Order = "rows" if node.attributes.get_int("transB", 0) else "columns"
    return Int8Layer(slot, name, data, 0 if node.attributes.get_int("transA", 0) else -1, order)


def channel_axes(layers: Iterable[Int8Layer]) -> dict[str, int]:
    """Returns the tensors that these layers multiply, and the axis of the channels of each.

    One whose readers sum over different axes is left out.
    """
    axes: dict[str, set[int]] = {}
    for layer in layers:
        axes.setdefault(layer.data, set()).add(layer.axis)
    return {tensor: min(found) for tensor, found in axes.items() if len(found) == 1}


def overflows(layer: Int8Layer, codes: NDArray[Any]) -> bool:
    """Whether sums of a layer whose weight has these codes may leave 16 bits for some activations."""
    return bool(overflowing_pairs(rows_of(codes, layer.order)).any())


def is_portable(scheme: Scheme, target: Target) -> bool:
    """Whether weights are made smaller where sums would leave 16 bits.

    With float16 scales onnxruntime (1.32) computes no layer on integers.
    """
    return scheme.portable and target.cpu_kernels and not (scheme.weights_only or scheme.float16_scales)


def saturation_note(
    model: ir.Model, placement: Placement, scheme: Scheme, target: Target, plan: Plan
) -> tuple[str, ...]:
    """Returns a note if a default session may saturate without VNNI, because weights are not made smaller.

    onnxruntime computes a convolution on integers where a pair stands right behind it, which pairs placed for it do,
    and other products always.
    """
    if is_portable(scheme, target) or scheme.encoding != "qdq" or scheme.float16_scales:
        return ()
    constants, found = dict(plan.constants), list[str]()
    nodes = {name_of(node): node for node in model.graph}
    for layer in integer_layers(model, placement, scheme):
        behind = target.cpu_kernels or name_of(nodes[layer.node].outputs[0]) in plan.activations
        weight = constants[layer.slot]
        if (behind or layer.order != "kernel") and not isinstance(weight, QuantizedBlocks):
            found += [layer.node] if overflows(layer, weight.encoded()) else []
    if not found:
        return ()
    layers = f"{counted(len(found), 'layer')} ({first_names(found)})"
    remedy = "portable=True avoids it" if target.cpu_kernels else "without graph optimizations it adds exactly"
    return (
        f"processors without VNNI: a default session of ONNX Runtime adds products of {layers} in 16 bits, which may "
        f"saturate and cost decibels there (verify tells how many); {remedy}",
    )


def make_portable(
    model: ir.Model,
    placement: Placement,
    scheme: Scheme,
    target: Target,
    constants: Mapping[ConstantSlot, Quantizer],
    activations: Mapping[str, Quantizer],
    channel_absmax: Mapping[str, NDArray[np.float32]],
) -> tuple[dict[ConstantSlot, Quantizer], tuple[Reduction, ...]]:
    """Returns quantizers of weights under which no sum of two products leaves 16 bits, and what that took.

    1. The largest activation code is 255, or that of the channel's maximum over samples and a tenth more.
    2. Codes of pairs that would overflow become smaller, by least squared error (`quarkfast.qparams.fit_pairs`).
    3. Where the weight as a whole, or a channel with a scale of its own, loses less with a larger scale, it gets that:
       up to twice as large, by least squared error of all its codes. Powers of two stay as they are.

    Args:
        model: The prepared model.
        placement: What is quantized.
        scheme: Nothing is changed unless it is portable.
        target: Nothing is changed unless ONNX Runtime's processor kernels run the result.
        constants: Quantizer of each constant.
        activations: Quantizers of the tensors that layers read; none where scales are computed while the model runs.
        channel_absmax: The largest magnitude of each channel of such tensors, from samples.
    """
    found, reductions = dict(constants), []
    for slot, readers in _by_weight(model, placement, scheme, target).items():
        values, quantizer = array_of(model.graph.initializers[slot.tensor]), constants[slot]
        known = [(activations.get(layer.data), channel_absmax.get(layer.data)) for layer in readers]
        margin = scheme.policy.portable_margin
        pairs = tuple(
            Pairs(layer.order, _highest(layer, values.shape, *each, margin))
            for layer, each in zip(readers, known, strict=True)
        )
        codes = codes_of(values, quantizer)
        fitted = replace(quantizer, pairs=pairs)
        if not any(overflowing_pairs(rows_of(codes, each.order), each.highest).any() for each in pairs):
            if scheme.rounding != "nearest":  # other codes than these may overflow
                found[slot] = fitted
            continue
        found[slot] = _grown(values, fitted) if slot.spec.scale == "float32" else fitted
        before, after = (_sqnr(values, each) for each in (quantizer, found[slot]))
        reductions += [Reduction(layer.node, round(before, 1), round(after, 1)) for layer in readers]
    return found, tuple(reductions)


def _by_weight(
    model: ir.Model, placement: Placement, scheme: Scheme, target: Target
) -> dict[ConstantSlot, list[Int8Layer]]:
    found: dict[ConstantSlot, list[Int8Layer]] = {}
    for layer in integer_layers(model, placement, scheme) if is_portable(scheme, target) else ():
        found.setdefault(layer.slot, []).append(layer)
    return found


def _highest(
    layer: Int8Layer,
    shape: tuple[int, ...],
    data: Quantizer | None,
    absmax: NDArray[np.float32] | None,
    margin: float,
) -> NDArray[np.int64] | None:
    """Returns the largest code, as uint8, that each code of the weight's rows is multiplied with; None for 255."""
    channels = shape[1] * layer.groups if layer.order == "kernel" else shape[-1 if layer.order == "rows" else -2]
    if data is None or absmax is None or absmax.size != channels:
        return None
    # int8 activations become uint8 on such processors, 128 higher.
    zero = int(data.zero_point) - int(qtype(data.dtype).qmin)
    codes = np.rint(absmax.astype(np.float64) * margin / float(data.scale)) + zero
    codes = np.clip(codes, zero, HIGHEST).astype(np.int64)
    if layer.order != "kernel":
        return np.broadcast_to(codes, (int(np.prod(shape)) // channels, channels))
    positions = int(np.prod(shape[2:]))
    return np.repeat(np.tile(codes.reshape(layer.groups, -1), positions), shape[0] // layer.groups, axis=0)


def _grown(values: NDArray[np.float32], quantizer: Quantizer) -> Quantizer:
    """Returns a quantizer with the scales that lose least, from its own to twice as large."""
    order, scale = quantizer.pairs[0].order, quantizer.scale
    exact = rows_of(values / scale_along(quantizer, values.ndim), order)
    channel = np.zeros(len(exact), np.int64)
    if scale.ndim and quantizer.axis is not None:
        if quantizer.axis % values.ndim != {"columns": values.ndim - 1, "rows": values.ndim - 2}.get(order, 0):
            return quantizer  # scales along the sum stay, only codes change
        channel = np.arange(len(exact)) % scale.size
    zero = np.broadcast_to(quantizer.zero_point, scale.shape).reshape(-1)[channel]
    row = qtype(quantizer.dtype)
    qmin = int(row.qmin) if quantizer.qmin is None else quantizer.qmin
    qmax = int(row.qmax) if quantizer.qmax is None else quantizer.qmax
    factors = grow_scales(exact, channel, zero, (qmin, qmax), quantizer.pairs[0].highest)
    return replace(quantizer, scale=(scale * factors.reshape(scale.shape)).astype(np.float32))


def _sqnr(values: NDArray[np.float32], quantizer: Quantizer) -> float:
    steps = codes_of(values, quantizer) - zero_point_along(quantizer, values.ndim)
    lost = values - steps * scale_along(quantizer, values.ndim)
    signal, noise = (float(np.square(each, dtype=np.float64).sum()) for each in (values, lost))
    return decibels(signal, noise) if signal and noise else math.inf
