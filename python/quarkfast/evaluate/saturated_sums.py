"""What a model of 8-bit activations and int8 weights computes on x86 processors without VNNI, simulated on any.

The model runs piece by piece, as it stands. Each piece ends at a layer that may saturate, whose sum gets what
saturation adds (:mod:`quarkfast.evaluate.saturation`), times the scales of both operands. The next piece begins
with that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.evaluate.metrics import sqnr
from quarkfast.evaluate.partial_model import Feed, Piece
from quarkfast.evaluate.saturation import attributes_of, excess

__all__ = ["SaturatedSums", "SaturatingModel", "simulate"]


@dataclass(frozen=True, slots=True)
class SaturatedSums:
    """How close a model's outputs are to the float model's, in dB: with whole sums and with those of 16 bits.

    Attributes:
        layers: Number of layers simulated.
        whole: Where every sum is whole, as with VNNI.
        saturated: Where pairs saturate.
    """

    layers: int
    whole: float
    saturated: float

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON, which has no infinity: None stands for it."""
        return {name: value if np.isfinite(value) else None for name, value in asdict(self).items()}


def simulate(
    model: onnx.ModelProto, names: Sequence[str], feeds: Sequence[Feed], reference: str | os.PathLike[str] | bytes
) -> SaturatedSums | None:
    """Runs a model with sums of 16 bits in some of its layers.

    Args:
        model: A quantized model of Q/DQ pairs with its constants in it, so below 2 GiB.
        names: Layers that may saturate: Conv, MatMul or Gemm with a weight of two dimensions.
        feeds: Arrays by the names of its inputs, at least one.
        reference: The float model, with the same inputs and first output.

    Returns:
        The ratios of the first output, or None if none of the layers is in the model as a group of pairs.

    Raises:
        ModelError: ONNX Runtime does not take a model or a feed.
    """
    simulated = SaturatingModel(model, names)
    if not simulated.layers:
        return None
    session = ort.inference_session(reference)
    runs = [(ort.run(session, feed)[0], *simulated.run(feed)) for feed in feeds]
    wanted, whole, saturated = (np.concatenate([each.ravel() for each in column]) for column in zip(*runs, strict=True))
    return SaturatedSums(simulated.layers, sqnr(wanted, whole), sqnr(wanted, saturated))


class SaturatingModel:
    """A quantized model that runs with whole sums, and with sums of 16 bits in some of its layers.

    Attributes:
        layers: Number of layers whose sums saturate.
    """

    def __init__(self, model: onnx.ModelProto, names: Sequence[str]) -> None:
        """Cuts the model into pieces.

        Args:
            model: As in :func:`simulate`.
            names: As there; those that are not groups of pairs are left out.

        Raises:
            ModelError: ONNX Runtime does not take the model.
        """
        layers = list(_layers(model.graph, frozenset(names)))
        output, ends = model.graph.output[0].name, [layer.output for layer in layers]
        self.layers = len(layers)
        self._pieces = [
            (layer, Piece(model, [layer.codes, layer.output], ends[:index])) for index, layer in enumerate(layers)
        ]
        self._whole, self._last = Piece(model, [output], []), Piece(model, [output], ends)

    def run(self, feed: Feed) -> tuple[NDArray[Any], NDArray[Any]]:
        """Returns the first output, with whole sums and with saturated ones.

        Raises:
            ModelError: ONNX Runtime does not take the feed.
        """
        known = dict(feed)
        for layer, piece in self._pieces:
            codes, exact = piece.run(known)
            known[layer.output] = exact + layer.error(codes)
        return self._whole.run(feed)[0], self._last.run(known)[0]


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer of one constant weight: the names of its codes and its output, and what its sums are made of."""

    node: onnx.NodeProto
    codes: str
    zero_point: int
    weight: NDArray[np.int8]
    scale: NDArray[np.float32]  # of a product of codes: one, or one for each output

    @property
    def output(self) -> str:
        return str(self.node.output[0])

    def error(self, codes: NDArray[Any]) -> NDArray[np.float32]:
        """Returns what saturation adds to the output, float32 of its shape."""
        # onnxruntime makes uint8 of int8 before it multiplies.
        raised = 128 * (codes.dtype == np.int8)
        sums = excess(self.node, self.weight, (codes + np.int16(raised)).astype(np.uint8), self.zero_point + raised)
        axis = 1 if self.node.op_type == "Conv" else -1
        return np.moveaxis(np.moveaxis(sums, axis, -1) * self.scale, -1, axis).astype(np.float32)


def _layers(graph: onnx.GraphProto, names: frozenset[str]) -> Iterator[_Layer]:
    """Yields the layers of these names that read both operands from DequantizeLinear, in the order of the graph."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    decoders = {node.output[0]: node for node in graph.node if node.op_type == "DequantizeLinear"}
    for node in graph.node:
        if node.name not in names or not all(name in decoders for name in node.input[:2]):
            continue
        activation, weight = (decoders[name] for name in node.input[:2])
        parameters = [*activation.input[1:], *weight.input[:2]]
        if all(name in constants for name in parameters):
            scale, zero_point, codes, factor = (onnx.numpy_helper.to_array(constants[name]) for name in parameters)
            product = np.float32(attributes_of(node).get("alpha", 1)) * scale * factor
            yield _Layer(node, activation.input[0], int(zero_point), codes, product.astype(np.float32))
