"""Smoothing: channels that reach far beyond the others are made smaller in front of matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, name_of, shape_of, tensor_of
from quarkfast.graph.names import Names
from quarkfast.prepare.reach import Normalization, by_input, find_normalization, is_product, reach_of, reads_columns

__all__ = ["smooth"]

_DONE = "quarkfast.smoothed"

# Beyond this, what activations gain is lost again where the estimate is wrong, and weights need more bits.
_LARGEST_FACTOR = 8.0


def smooth(model: ir.Model) -> None:
    """Divides channels in front of matrix products by factors, and multiplies the weights that read them, in place.

    1. `quarkfast.prepare.reach` estimates how far each channel reaches. One that reaches further than the median of its
       tensor gets the ratio of the two as its factor, rounded to a power of two and limited to 8; the others 1.
    2. Where all readers of a layer normalization are products, its gain and offset are divided. Otherwise a Mul comes
       between the tensor and the products that read it; a residual sum reads the tensor as it was.
    3. The rows of the products' weights are multiplied. A tensor stays as it is if one of the products shares its
       weight with another reader.

    One scale for a tensor is then set by more channels than the one or two that reach furthest. Weights need a scale
    for each output channel: rows that grow would cost the others their digits. Idempotent: a model that was smoothed
    says so. Graph inputs and outputs are kept. Error: none, but where numbers become subnormal or infinite.

    Source:
        G. Xiao et al., "SmoothQuant", 2023, arXiv:2211.10438, with estimates in place of calibration and without moving
        what weights lack into activations. X. Wei et al., "Outlier Suppression", 2022, arXiv:2209.13325, for the gain
        of a layer normalization as what tells the channels that stand out.
    """
    if model.meta.get(_DONE):
        return
    model.meta[_DONE] = True
    found = [(value, _products(value)) for node in model.graph for value in node.outputs]
    chosen = [(value, products, _factors(value, products)) for value, products in found if products]
    names = Names.of(model)
    for value, products, factors in chosen:
        if (factors != 1).any():
            _divide(model.graph, value, products, factors, names)
            _multiply(products, factors)


def _products(value: ir.Value) -> list[ir.Node]:
    """Returns the products that read `value`, none if the weight of one cannot be changed for it alone."""
    found = [node for node, index in value.uses() if index == 0 and is_product(node) and node.graph is value.graph]
    weights = [node.inputs[1] for node in found]
    return found if all(_is_own(weight, found) for weight in weights) else []


def _is_own(value: ir.Value | None, readers: Sequence[ir.Node]) -> bool:
    """Whether nobody but `readers` reads a constant, and each of them once."""
    if value is None or value.is_graph_output() or value.is_graph_input():
        return False
    return all(node in readers and node.inputs.count(value) == 1 for node, _ in value.uses())


def _factors(value: ir.Value, products: Sequence[ir.Node]) -> NDArray[np.float32]:
    """Returns the factor of each channel of `value`, all 1 where nothing is known of it."""
    channels = {by_input(node, array_of(node.inputs[1])).shape[:1] for node in products}
    reach = reach_of(value)
    if reach is None or channels != {reach.shape} or not np.isfinite(reach).all():
        return np.ones(1, np.float32)
    median = np.median(reach)
    ratios = np.maximum(reach / median, 1.0) if median > 0 else np.ones(reach.shape)
    factors: NDArray[np.float32] = np.exp2(np.rint(np.log2(ratios))).astype(np.float32)
    return np.minimum(factors, np.float32(_LARGEST_FACTOR))


def _divide(
    graph: ir.Graph, value: ir.Value, products: Sequence[ir.Node], factors: NDArray[np.float32], names: Names
) -> None:
    normalization = find_normalization(value)
    others = any(node not in products for node, _ in value.uses()) or value.is_graph_output()
    if normalization is not None and not others and _is_alone(normalization):
        for constant in (normalization.gain, normalization.offset):
            if constant is not None:
                constant.const_value = ir.Tensor(array_of(constant) / factors, name=constant.name)
        return
    name = names.fresh(f"{name_of(value)}_factors")
    tensor = ir.Tensor(1 / factors, name=name)
    constant = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(factors.shape), const_value=tensor)
    graph.register_initializer(constant)
    node = ir.node("Mul", [value, constant], name=names.fresh(f"{name_of(value)}_Smooth"))
    smoothed = node.outputs[0]
    smoothed.name, smoothed.type, smoothed.shape = names.fresh(f"{name_of(value)}_smoothed"), value.type, value.shape
    producer = value.producer()
    assert producer is not None  # reach_of has seen it
    graph.insert_after(producer, node)
    for product in products:
        product.replace_input_with(0, smoothed)


def _is_alone(normalization: Normalization) -> bool:
    """Whether nothing else reads the constants of a layer normalization."""
    constants = [each for each in (normalization.gain, normalization.offset) if each is not None]
    return all(len(each.uses()) == 1 and not each.is_graph_output() and not each.is_graph_input() for each in constants)


def _multiply(products: Sequence[ir.Node], factors: NDArray[np.float32]) -> None:
    """Multiplies weights by the factors of their rows whenever they are read: no second copy stays in memory."""
    for value, product in {node.inputs[1]: node for node in products}.items():
        assert value is not None  # is_product has made sure
        value.const_value = _multiplied(value, factors if reads_columns(product) else factors[:, None])


def _multiplied(value: ir.Value, factors: NDArray[np.float32]) -> ir.LazyTensor:
    source = ir.Value(name=value.name, const_value=tensor_of(value))

    def made() -> ir.TensorProtocol:
        return ir.Tensor(array_of(source) * factors, name=source.name)

    shape = ir.Shape(shape_of(tensor_of(value)))
    return ir.LazyTensor(made, dtype=ir.DataType.FLOAT, shape=shape, name=value.name)
