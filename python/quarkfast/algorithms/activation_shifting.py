"""Activation shifting: tensors lose an offset, what stands around them makes up for it, and biases for its rounding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from quarkfast.algorithms.algorithm import AlgorithmContext
from quarkfast.algorithms.offset_groups import OffsetGroups, pads_of
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, array_of_tensor, name_of
from quarkfast.graph.builder import GraphBuilder, drop_unread
from quarkfast.graph.linear_layers import BiasedLayer
from quarkfast.graph.walks import clip_limits

__all__ = ["Shifted", "correct_offset_biases", "shift_tensors"]


class Shifted(NamedTuple):
    """What was done.

    Attributes:
        offsets: What tensors have lost, by name.
        limits: The Clips whose limits have moved.
        pads: The number of Pads that were added.
        layers: The layers whose data have lost an offset, and that.
    """

    offsets: Mapping[str, float]
    limits: Sequence[ir.Node]
    pads: int
    layers: Sequence[tuple[BiasedLayer, float]]


def shift_tensors(model: ir.Model, groups: OffsetGroups, offsets: Mapping[ir.Value, float]) -> Shifted | None:
    """Subtracts the offset of its group from every tensor, in place; the outputs of the model stay what they are.

    1. A layer adds the sum of its weights times the offset of its data to its bias, and subtracts that of its output.
    2. Relu becomes Clip from ``-c`` up; limits of Clip and the number of a Pad move along.
    3. The zeros that a Conv puts around its data are ``-c`` now: a Pad in front of it does so.

    Error: rounding of biases and limits to float32.

    Args:
        model: Operator set 11 or newer.
        groups: Those of its graph.
        offsets: Finite, by the tensor that stands for a group; 0 where it is missing.

    Returns:
        What was done; None, and the model as it was, where a bias would leave float32.

    Source:
        The equivalence is that of bias absorption, M. Nagel et al., "Data-Free Quantization Through Weight Equalization
        and Bias Correction", 2019, section 4.1.3, and of channel-wise shifting, X. Wei et al., "Outlier Suppression+",
        2023, section 4.1. Offsets here are those of whole tensors, so that a limit or a padding is one number.
    """
    shifting = _Shifting(model, groups, offsets)
    changed = [(layer, shifting.bias_of(layer)) for layer in groups.layers if shifting.touches(layer)]
    if any(bias is None for _, bias in changed):
        return None
    layers = [(layer, offset) for layer, _ in changed if (offset := shifting.offset(layer.node.inputs[0]))]
    for layer, bias in changed:
        if bias is not None:
            shifting.move_layer(layer, bias)
    limits = [node for node in groups.limits if shifting.move_limits(node)]
    for node in groups.pads:
        shifting.move_pad(node)
    drop_unread(model.graph)
    return Shifted(shifting.offsets(), limits, shifting.pads, layers)


class _Shifting:
    """Knows the offsets, and the Pads that were added."""

    def __init__(self, model: ir.Model, groups: OffsetGroups, offsets: Mapping[ir.Value, float]) -> None:
        self._builder = GraphBuilder(model)
        self._groups, self._offsets = groups, offsets
        self._padded: dict[tuple[ir.Value, tuple[int, ...]], ir.Value] = {}

    def offset(self, value: ir.Value | None) -> float:
        """Returns what a tensor of the model as it was loses."""
        return 0.0 if value is None else self._offsets.get(self._groups.of(value), 0.0)

    @property
    def pads(self) -> int:
        """The number of Pads that were added."""
        return len(self._padded)

    def offsets(self) -> dict[str, float]:
        """Returns the offsets of tensors by name, those of Pads that were added as well."""
        values = [value for node in self._builder.graph for value in node.outputs]
        found = {name_of(value): self.offset(value) for value in values}
        found |= {name_of(padded): self.offset(data) for (data, _), padded in self._padded.items()}
        return {name: offset for name, offset in found.items() if offset}

    def touches(self, layer: BiasedLayer) -> bool:
        """Whether what a layer reads or computes has an offset."""
        return bool(self.offset(layer.node.inputs[0]) or self.offset(layer.output))

    def bias_of(self, layer: BiasedLayer) -> np.ndarray | None:
        """Returns the new bias of a layer; None if it leaves float32."""
        front, behind = self.offset(layer.node.inputs[0]), self.offset(layer.output)
        found = layer.shifted_bias(front, behind, lambda value: array_of(value).astype(np.float64))
        return None if found is None else found.astype(np.float32)

    def move_layer(self, layer: BiasedLayer, numbers: np.ndarray) -> None:
        """Gives a layer its new bias, and a Conv with padding a Pad in front."""
        node, data = layer.node, layer.node.inputs[0]
        pads = pads_of(node)
        if pads and data is not None and self.offset(data):
            node.replace_input_with(0, self._pad(node, data, pads))
            node.attributes["pads"] = ir.AttrInt64s("pads", [0] * len(pads))
        layer.place_bias(self._builder, self._builder.initializer(f"{name_of(layer.output)}_bias", numbers))
        node.attributes.pop("beta", None)  # Gemm's of its bias, which has it now

    def _pad(self, reader: ir.Node, data: ir.Value, pads: Sequence[int]) -> ir.Value:
        """Returns `data` with the number that its zeros have become around it; Convs with the same padding share it."""
        key = data, tuple(pads)
        if key not in self._padded:
            half, name = len(pads) // 2, f"{name_of(data)}_Pad"
            sizes = np.array([0, 0, *pads[:half], 0, 0, *pads[half:]], np.int64)
            given = [data, self._builder.initializer(f"{name}_pads", sizes), self._number(name, -self.offset(data))]
            node = self._builder.call(ir.Node("", "Pad", given), name)
            result = node.outputs[0]
            result.type, result.shape = data.type, _padded_shape(data.shape, sizes)
            self._builder.graph.insert_before(reader, node)
            self._padded[key] = result
        return self._padded[key]

    def _number(self, name: str, value: float) -> ir.Value:
        return self._builder.initializer(f"{name}_value", np.array(value, np.float32))

    def move_limits(self, node: ir.Node) -> bool:
        """Moves the limits of a Relu or a Clip; returns whether it has an offset."""
        offset = self.offset(node.outputs[0])
        if not offset:
            return False
        low, high = (0.0, None) if node.op_type == "Relu" else clip_limits(node) or (None, None)
        node.op_type = "Clip"
        node.resize_inputs(2 if high is None else 3)
        for index, limit, name in ((1, low, "min"), (2, high, "max")):
            if index < len(node.inputs):
                moved = None if limit is None else self._number(f"{name_of(node.outputs[0])}_{name}", limit - offset)
                node.replace_input_with(index, moved)
        return True

    def move_pad(self, node: ir.Node) -> None:
        """Moves the number that a Pad puts around its data."""
        offset = self.offset(node.outputs[0])
        if offset:
            given = node.inputs[2] if len(node.inputs) > 2 else None
            value = 0.0 if given is None else float(array_of(given).reshape(()))
            node.resize_inputs(max(len(node.inputs), 3))
            node.replace_input_with(2, self._number(name_of(node.outputs[0]), value - offset))


def _padded_shape(shape: ir.Shape | None, sizes: np.ndarray) -> ir.Shape | None:
    if shape is None or len(shape) * 2 != len(sizes):
        return None
    added = (sizes[: len(shape)] + sizes[len(shape) :]).tolist()
    sized = [size + more if isinstance(size, int) else None for size, more in zip(shape, added, strict=True)]
    return ir.Shape([own if not more else size for own, size, more in zip(shape, sized, added, strict=True)])


def correct_offset_biases(context: AlgorithmContext, layers: Iterable[tuple[BiasedLayer, float]]) -> bool:
    """Adds offsets times the rounded weights to biases, where those of float weights were added.

    A layer of data less ``c`` adds ``c`` times the sum of its weights to its bias. With the weights that codes stand
    for it loses nothing by the offset: ``W^ (x - c) + W^ c = W^ x``.

    Args:
        context: With a plan; its biases change.
        layers: Layers, with what their data have lost.

    Returns:
        Whether any bias changed.
    """
    weights, biases = context.coded_weights(), context.movable_biases()
    changed = {}
    for layer, offset in layers:
        weight, bias = weights.get(name_of(layer.weight)), biases.get(name_of(layer.bias))
        if weight is None or bias is None:
            continue
        floats, rounded = (np.asarray(each, np.float64) for each in (array_of_tensor(weight.values), weight.decoded()))
        given = np.asarray(array_of_tensor(bias.values), np.float64)
        missing = layer.response(offset, rounded - floats).reshape(given.shape)
        changed[name_of(layer.bias)] = bias.with_nearest((given + missing).astype(np.float32))
    context.replace_codes(changed)
    return bool(changed)
