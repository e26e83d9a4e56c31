"""Channel range estimation: maxima in front of matrix products, from the weights and without data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.config import POLICY, Policy
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, rank_of
from quarkfast.graph.functions import Normalization, find_normalization, is_vector, vector_of
from quarkfast.graph.operators import GATE_STEPS, RECTIFIERS

__all__ = [
    "Activation",
    "by_input",
    "estimate_channel_absmax",
    "find_activation",
    "is_product",
    "reads_columns",
]

Values = NDArray[np.float64]


class Activation(NamedTuple):
    """Gelu, Relu or the like of a matrix product and its bias, a constant with one value for each channel or None."""

    product: ir.Node
    bias: ir.Value | None


def estimate_channel_absmax(value: ir.Value, policy: Policy = POLICY) -> Values | None:
    """Returns an estimate of the largest magnitude of each channel, along the last axis of `value`, or None.

    1. Behind a layer normalization, an operator or written out, it is ``r = 4 |gain| + |offset|``, and where that is
       above its median ``m``, ``m (r / m) ** 1.5``.
    2. If that reads a sum with the result of another normalization (the residual stream), what stands out there does
       so still: ``4 |gain| q + |offset|``, with ``q`` the ``(r / m) ** 1.5`` of the other, where that is larger.
    3. Behind a product with the result of a normalization, its bias, and Gelu, Relu or the like, operators or written
       out: ``r = max(0, mean + 3 d + 3 t)``, and as in (1). The mean of the sum is ``offset @ W + bias``, ``d`` the
       root of the sum of squares of ``gain[i] W[i, j]`` and ``t`` the largest of their magnitudes.

    Numbers are those of the policy by default. Only ratios between channels mean something. The same on every machine:
    sums are NumPy's, over rows in order.
    """
    normalization = find_normalization(value)
    if normalization is None:
        activation = find_activation(value)
        found = None if activation is None else _reach_of_sum(activation, policy)
        return None if found is None else np.median(found) * _excess(found, policy)
    alone = _reach_alone(normalization, policy)
    own = np.median(alone) * _excess(alone, policy)
    before = _normalized_before(normalization.source)
    excess = None if before is None else _excess(_reach_alone(before, policy), policy)
    if excess is None or excess.shape != own.shape:
        return own
    gain, offset = _constants(normalization)
    return np.maximum(own, policy.smoothing_reach * np.abs(gain) * excess + np.abs(offset))


def is_product(node: ir.Node) -> bool:
    """Whether `node` is a matrix product whose second operand is a constant matrix of float32."""
    if not is_standard(node) or node.op_type not in ("Gemm", "MatMul") or int(node.attributes.get_int("transA", 0)):
        return False
    weight = node.inputs[1]
    return weight is not None and is_constant(weight) and weight.dtype == ir.DataType.FLOAT and rank_of(weight) == 2


def by_input(node: ir.Node, weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns a view of the weight of a product with one row for each channel of its input."""
    return weight.T if reads_columns(node) else weight


def reads_columns(node: ir.Node) -> bool:
    """Whether the channels of a product's input meet the columns of its weight, not the rows."""
    return node.op_type == "Gemm" and bool(node.attributes.get_int("transB", 0))


def find_activation(value: ir.Value) -> Activation | None:
    """Returns the product and the bias that `value` is an activation of, operators or written out, or None."""
    entry = _activated(value)
    if entry is None:
        return None
    bias, product = vector_of(entry.producer(), "Add")
    node = entry.producer() if product is None else product.producer()
    if node is None or not is_product(node) or node.inputs[0] is None:
        return None
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        if bias is not None or not is_vector(node.inputs[2]):
            return None
        bias = node.inputs[2]
    return Activation(node, bias)


def _normalized_before(value: ir.Value | None) -> Normalization | None:
    """Returns the normalization whose result is one of the terms of the sum `value`, or None."""
    node = None if value is None else value.producer()
    if node is None or not is_standard(node) or node.op_type != "Add":
        return None
    found = [find_normalization(term) for term in node.inputs if term is not None]
    return next((each for each in found if each is not None), None)


def _excess(reach: Values, policy: Policy) -> Values:
    """Returns how far beyond the median each channel reaches, at least 1; not a number where the median is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Values = np.maximum(reach / np.median(reach), 1.0) ** policy.smoothing_power
    return found


def _reach_alone(normalization: Normalization, policy: Policy) -> Values:
    gain, offset = _constants(normalization)
    found: Values = policy.smoothing_reach * np.abs(gain) + np.abs(offset)
    return found


def _constants(normalization: Normalization) -> tuple[Values, Values]:
    gain = array_of(normalization.gain).astype(np.float64)
    offset = normalization.offset
    return gain, np.zeros_like(gain) if offset is None else array_of(offset).astype(np.float64)


def _reach_of_sum(activation: Activation, policy: Policy) -> Values | None:
    node = activation.product
    assert node.inputs[0] is not None  # is_product has made sure
    normalization = find_normalization(node.inputs[0])
    weight = by_input(node, array_of(node.inputs[1]))
    if normalization is None or array_of(normalization.gain).shape != weight.shape[:1]:
        return None
    gain, offset = _constants(normalization)
    terms = weight * gain.astype(np.float32)[:, None]
    mean = (weight * offset.astype(np.float32)[:, None]).sum(axis=0, dtype=np.float64)
    if activation.bias is not None:
        mean = mean + array_of(activation.bias)
    spread = np.sqrt(np.square(terms).sum(axis=0, dtype=np.float64)) + np.abs(terms).max(axis=0, initial=0.0)
    found: Values = np.maximum(mean + policy.smoothing_sum_reach * spread, 0.0)
    return found


def _activated(value: ir.Value) -> ir.Value | None:
    """Returns the ``x`` of an activation ``x * g(x)`` that `value` is the result of, or None."""
    node = value.producer()
    if node is not None and node.op_type in RECTIFIERS:
        return node.inputs[0] if len(node.inputs) == 1 else None
    node = _without_scalars(value).producer()
    if node is None or not is_standard(node) or node.op_type != "Mul":
        return None
    for factor, gate in (node.inputs, node.inputs[::-1]):
        if factor is not None and gate is not None:
            entry = _without_scalars(factor)
            if _reads_only(gate, entry):
                return entry
    return None


def _without_scalars(value: ir.Value) -> ir.Value:
    """Returns what `value` is but for multiplications with constants of one element."""
    node = value.producer()
    if node is None or not is_standard(node) or node.op_type != "Mul":
        return value
    for factor, constant in (node.inputs, node.inputs[::-1]):
        if factor is not None and not is_constant(factor) and _is_scalar(constant):
            return _without_scalars(factor)
    return value


def _is_scalar(value: ir.Value | None) -> bool:
    return value is not None and is_constant(value) and array_of(value).size == 1


def _reads_only(gate: ir.Value, entry: ir.Value) -> bool:
    """Whether `gate` is a function of `entry` and constants of one element alone."""
    waiting, seen = [gate], {entry}
    while waiting:
        value = waiting.pop()
        if value in seen or _is_scalar(value):
            continue
        seen.add(value)
        node = value.producer()
        if node is None or not is_standard(node) or node.op_type not in GATE_STEPS:
            return False
        waiting += [each for each in node.inputs if each is not None]
    return gate is not entry
