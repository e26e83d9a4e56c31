"""Layers that are linear in their data, with constant weights: what an affine step in front or behind makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, is_read_once, is_standard, name_of, rank_of, shape_of, tensor_of
from quarkfast.graph.affine import Affine
from quarkfast.graph.builder import GraphBuilder
from quarkfast.graph.operators import LAYERS
from quarkfast.graph.rewriting import splice

__all__ = ["BiasedLayer", "LayerValues", "layer_behind", "layer_in_front", "sum_of"]

Values = NDArray[np.float64]
Read = Callable[[ir.Value], Values]


# A weight below float32's least normal number is off by up to 2^-150; beside a largest one of 2^-102 that is less than
# half an ulp of it.
_LEAST = 2.0**-102


class LayerValues(NamedTuple):
    """What a layer's weight and bias become, in float64; None where they stay as they are."""

    weight: Values | None
    bias: Values | None


@dataclass(frozen=True)
class BiasedLayer:
    """A Conv, ConvTranspose, Gemm or MatMul by a constant, and the Add of a bias behind a MatMul.

    Attributes:
        node: The layer.
        sum: The Add of a constant vector, the only reader of a MatMul; else None.
    """

    node: ir.Node
    sum: ir.Node | None = None

    @property
    def output(self) -> ir.Value:
        """What it computes, with the bias."""
        return (self.node if self.sum is None else self.sum).outputs[0]

    @property
    def weight(self) -> ir.Value:
        """The weight."""
        value = self.node.inputs[1]
        assert value is not None  # _is_layer has made sure
        return value

    @property
    def bias(self) -> ir.Value | None:
        """The bias, where there is one."""
        if self.sum is not None:
            return next(value for value in self.sum.inputs if is_constant(value))
        return self.node.inputs[2] if self.node.op_type != "MatMul" and len(self.node.inputs) > 2 else None

    def behind(self, affine: Affine, read: Read) -> LayerValues | None:
        """Returns the layer with `affine` behind it; None if the channels are others, or numbers leave float32.

        Args:
            affine: The step, by channels of the output.
            read: Returns the contents of a constant, in float64.
        """
        shape = shape_of(tensor_of(self.weight))
        count = _outputs(self.node, shape)
        if not self._fits(affine, count):
            return None
        factor = np.broadcast_to(affine.factor, count)
        weight = read(self.weight) * _for_outputs(self.node, factor, shape) if affine.has_factor else None
        return self._checked(weight, self._bias(count, read) * factor + affine.offset, read)

    def in_front(self, affine: Affine, read: Read) -> LayerValues | None:
        """Returns the layer with `affine` in front of it; None also where padding would miss what is added."""
        shape = shape_of(tensor_of(self.weight))
        count = _inputs(self.node, shape)
        if not self._fits(affine, count) or (affine.has_offset and _sees_padding(self.node)):
            return None
        if self.node.attributes.get_int("transA", 0) and affine.axis is not None:
            return None
        weight, bias = read(self.weight), None
        if affine.has_offset:
            bias = self._bias(_outputs(self.node, shape), read) + self.response(
                np.broadcast_to(affine.offset, count), weight
            )
        factor = _for_inputs(self.node, np.broadcast_to(affine.factor, count), shape)
        return self._checked(weight * factor if affine.has_factor else None, bias, read)

    def shifted_bias(self, front: float, behind: float, read: Read) -> Values | None:
        """Returns the bias that makes up for other offsets, where no output misses a weight at a border.

        Args:
            front: What is subtracted from the data.
            behind: What is to be subtracted from the output.
            read: Returns the contents of a constant, in float64.

        Returns:
            One number for each output channel, ``[count]``; None if one leaves float32.
        """
        weight = read(self.weight)
        response = self.response(front, weight) if front else 0.0
        bias = self._bias(_outputs(self.node, weight.shape), read) + response - behind
        return None if self._checked(None, bias, read) is None else bias

    def response(self, data: float | Values, weight: Values) -> Values:
        """Returns what the layer, no ConvTranspose, makes of data that are the same at every place, without its bias.

        Args:
            data: One number, or one for each input channel.
            weight: The weight, or another of its shape.

        Returns:
            One number for each output channel, ``[count]``.
        """
        numbers = np.broadcast_to(np.asarray(data, np.float64), _inputs(self.node, weight.shape))
        sums = _sums(self.node, weight * _for_inputs(self.node, numbers, weight.shape))
        return self.node.attributes.get_float("alpha", 1.0) * sums

    def place_bias(self, builder: GraphBuilder, bias: ir.Value) -> None:
        """Has the layer add another constant; behind a MatMul that adds none, an Add does so.

        Args:
            builder: Of the layer's model.
            bias: One number for each output channel.
        """
        if self.sum is not None:
            index = next(i for i, value in enumerate(self.sum.inputs) if is_constant(value))
            self.sum.replace_input_with(index, bias)
        elif self.node.op_type != "MatMul":
            self.node.resize_inputs(3)
            self.node.replace_input_with(2, bias)
        else:
            product = self.node.outputs[0]
            add = builder.call(ir.Node("", "Add", [product, bias]), f"{name_of(self.node)}_bias")
            result = add.outputs[0]
            result.type, result.shape = product.type, product.shape
            splice(builder.graph, product, [add], result, builder.fresh(f"{name_of(product)}_product"))

    def _fits(self, affine: Affine, count: int) -> bool:
        """Whether the channels of a step are those of this layer, whose weight may change if the step asks for that."""
        axis = 1 - rank_of(self.weight) if self.node.op_type in ("Conv", "ConvTranspose") else -1
        own = affine.axis is None or (affine.axis == axis and affine.size == count)
        return own and (not affine.has_factor or is_read_once(self.weight))

    def _bias(self, count: int, read: Read) -> Values:
        """Returns what is added to each output channel, ``[count]``."""
        if self.bias is None:
            return np.zeros(count)
        beta = self.node.attributes.get_float("beta", 1.0)
        return np.broadcast_to(beta * read(self.bias).reshape(-1), count)

    def _checked(self, weight: Values | None, bias: Values | None, read: Read) -> LayerValues | None:
        """Returns the change unless it overflows float32, or becomes too small for it."""
        arrays = [each for each in (weight, bias) if each is not None]
        if any(np.abs(each).max(initial=0.0) > np.finfo(np.float32).max for each in arrays):
            return None
        if not all(np.isfinite(each).all() for each in arrays):
            return None
        if weight is not None and np.abs(weight).max(initial=0.0) < _LEAST and read(self.weight).any():
            return None
        return LayerValues(weight, bias)


def layer_in_front(value: ir.Value) -> BiasedLayer | None:
    """Returns the layer that computes `value`, or None."""
    node = value.producer()
    if node is None:
        return None
    product = sum_of(node)
    if product is not None:
        return BiasedLayer(product, node)
    return BiasedLayer(node) if _is_layer(node) else None


def layer_behind(node: ir.Node, index: int) -> BiasedLayer | None:
    """Returns the layer that reads its data at an input of `node`, or None."""
    if index != 0 or not _is_layer(node):
        return None
    uses = node.outputs[0].uses()
    reader = next(iter(uses))[0] if len(uses) == 1 and node.op_type == "MatMul" else None
    return BiasedLayer(node, reader if reader is not None and sum_of(reader) is node else None)


def sum_of(node: ir.Node) -> ir.Node | None:
    """Returns the MatMul whose bias `node` adds: a vector with one number for each output channel; None if it does not.

    No one else reads the product.
    """
    if not is_standard(node) or node.op_type != "Add":
        return None
    for product, constant in (node.inputs, node.inputs[::-1]):
        producer = None if product is None else product.producer()
        if product is None or producer is None or producer.op_type != "MatMul" or not is_read_once(product):
            continue
        if producer.graph is node.graph and _is_layer(producer) and _is_vector(constant, producer):
            return producer
    return None


def _is_vector(constant: ir.Value | None, product: ir.Node) -> bool:
    if constant is None or not is_constant(constant) or constant.dtype != ir.DataType.FLOAT:
        return False
    return shape_of(tensor_of(constant)) == shape_of(tensor_of(product.inputs[1]))[-1:]


def _is_layer(node: ir.Node) -> bool:
    """Whether weight and bias are constants of float32, and the bias one number for each output channel, or for all."""
    if not is_standard(node) or node.op_type not in LAYERS:
        return False
    if not _is_float(node.inputs[1]) or (node.op_type in ("Gemm", "MatMul") and rank_of(node.inputs[1]) != 2):
        return False
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is None:
        return True
    if not _is_float(bias):
        return False
    shape = shape_of(tensor_of(bias))
    last, count = (shape or (1,))[-1], _outputs(node, shape_of(tensor_of(node.inputs[1])))
    return tensor_of(bias).size == last and last in (1, count)


def _is_float(value: ir.Value | None) -> bool:
    return value is not None and is_constant(value) and value.dtype == ir.DataType.FLOAT and not value.is_graph_input()


def _groups(node: ir.Node) -> int:
    return node.attributes.get_int("group", 1)


def _reads_rows(node: ir.Node) -> bool:
    """Whether a matrix is ``[inputs, outputs]``."""
    return not node.attributes.get_int("transB", 0)


def _outputs(node: ir.Node, shape: tuple[int, ...]) -> int:
    """Returns the number of output channels of a weight of this shape."""
    if node.op_type == "Conv":
        return shape[0]
    if node.op_type == "ConvTranspose":
        return shape[1] * _groups(node)
    return shape[1] if _reads_rows(node) else shape[0]


def _inputs(node: ir.Node, shape: tuple[int, ...]) -> int:
    """Returns the number of input channels."""
    if node.op_type == "Conv":
        return shape[1] * _groups(node)
    return shape[0] if node.op_type == "ConvTranspose" or _reads_rows(node) else shape[1]


def _for_outputs(node: ir.Node, numbers: Values, shape: tuple[int, ...]) -> Values:
    """Returns one number for each output channel in a shape that multiplies the weight."""
    places = [1] * (len(shape) - 2)
    if node.op_type == "Conv":
        return numbers.reshape(-1, 1, *places)
    if node.op_type == "ConvTranspose":  # [inputs, outputs of a group, ...]; the inputs of a group lie together
        return numbers.reshape(_groups(node), -1).repeat(shape[0] // _groups(node), axis=0).reshape(*shape[:2], *places)
    return numbers if _reads_rows(node) else numbers[:, None]


def _for_inputs(node: ir.Node, numbers: Values, shape: tuple[int, ...]) -> Values:
    """Returns one number for each input channel in a shape that multiplies the weight."""
    places = [1] * (len(shape) - 2)
    if node.op_type == "Conv":  # [outputs, inputs of a group, ...]; the outputs of a group lie together
        return numbers.reshape(_groups(node), -1).repeat(shape[0] // _groups(node), axis=0).reshape(*shape[:2], *places)
    if node.op_type == "ConvTranspose":
        return numbers.reshape(-1, 1, *places)
    return numbers[:, None] if _reads_rows(node) else numbers


def _sums(node: ir.Node, products: Values) -> Values:
    """Returns the sum of the weights of each output channel; not for ConvTranspose."""
    if node.op_type == "Conv":
        products = products.reshape(len(products), -1).T
    total: Values = products.sum(axis=0 if node.op_type == "Conv" or _reads_rows(node) else 1)
    return total


def _sees_padding(node: ir.Node) -> bool:
    """Whether not every output adds up all weights: near a border, or where a kernel is spread over outputs."""
    if node.op_type == "ConvTranspose":
        return True
    if node.op_type != "Conv" or not any(node.attributes.get_ints("pads", ())):
        automatic = node.attributes.get_string("auto_pad", "NOTSET")
        return node.op_type == "Conv" and automatic not in ("NOTSET", "VALID")
    return True
