"""How far each channel in front of a matrix product reaches, as far as weights tell without data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_standard, rank_of

__all__ = ["Normalization", "by_input", "find_normalization", "is_product", "reach_of", "reads_columns"]

Values = NDArray[np.float64]

# A normalized channel is taken to reach 4 standard deviations. In MiniLM the error of 8-bit codes behind a layer
# normalization is the same, within 0.3 dB, with 2, 4 and 8: what counts is which channels stand out.
_DEVIATIONS = 4.0

# Tokens that lie far out do so in the channels of large reach, by more than 4 deviations. MiniLM, the same error: 27.0
# dB as it is, 31.8 with ratios as they are, 33.6 with the power 1.25, 34.9 with 1.5, 34.8 with 1.75; 37.9 with what
# calibration sees. Inputs of attention, where only what stood out before tells: 30.7 dB as they are, 32.0 with the
# power 1, 33.7 with 1.5, 33.5 with 2; 36.5 with what calibration sees.
_POWER = 1.5

# And a sum of such channels 3 of its own, with 3 of its largest term: tokens with one channel far out are what sets
# the range. MiniLM, the input of second feed-forward products: 32.3 dB with both, 30.8 with 4 deviations alone.
_SUM_DEVIATIONS = 3.0

_NORMALIZATIONS = frozenset({"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"})

# Activations that leave positive values about as they are and take nearly all from negative ones, and what the same
# are made of where they are written out as ``x * g(x)``.
_ACTIVATIONS = frozenset({"FastGelu", "Gelu", "HardSwish", "Mish", "QuickGelu", "Relu", "Swish"})
_GATES = frozenset(
    {"Add", "Cast", "Clip", "Div", "Erf", "Exp", "HardSigmoid", "Mul", "Pow", "Sigmoid", "Softplus", "Tanh"}
)


@dataclass(frozen=True, slots=True)
class Normalization:
    """A layer normalization of `source`: ``normalized * gain + offset``, constants with one value for each channel."""

    source: ir.Value | None
    gain: ir.Value
    offset: ir.Value | None


def reach_of(value: ir.Value) -> Values | None:
    """Returns an estimate of the largest magnitude of each channel, along the last axis of `value`, or None.

    1. Behind a layer normalization, an operator or written out, it is ``r = 4 |gain| + |offset|``, and where that is
       above its median ``m``, ``m (r / m) ** 1.5``.
    2. If that reads a sum with the result of another normalization (the residual stream), what stands out there does
       so still: ``4 |gain| q + |offset|``, with ``q`` the ``(r / m) ** 1.5`` of the other, where that is larger.
    3. Behind a product with the result of a normalization, its bias, and Gelu, Relu or the like, operators or written
       out: ``r = max(0, mean + 3 d + 3 t)``, and as in (1). The mean of the sum is ``offset @ W + bias``, ``d`` the
       root of the sum of squares of ``gain[i] W[i, j]`` and ``t`` the largest of their magnitudes.

    Only ratios between channels mean something. The same on every machine: sums are NumPy's, over rows in order.
    """
    normalization = find_normalization(value)
    if normalization is None:
        entry = _activated(value)
        found = None if entry is None else _reach_of_sum(entry)
        return None if found is None else np.median(found) * _excess(found)
    alone = _reach_alone(normalization)
    own = np.median(alone) * _excess(alone)
    before = _normalized_before(normalization.source)
    excess = None if before is None else _excess(_reach_alone(before))
    if excess is None or excess.shape != own.shape:
        return own
    gain, offset = _constants(normalization)
    return np.maximum(own, _DEVIATIONS * np.abs(gain) * excess + np.abs(offset))


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


def find_normalization(value: ir.Value) -> Normalization | None:
    """Returns the constants of the layer normalization over the last axis that `value` is the result of, or None."""
    node = value.producer()
    if node is None or not is_standard(node):
        return None
    if node.op_type in _NORMALIZATIONS:
        source, gain, offset = (*node.inputs, None)[:3]
        over_last = node.attributes.get_int("axis", -1) == -1 and value is node.outputs[0]
        known = gain is not None and _is_vector(gain) and (offset is None or _is_vector(offset))
        return Normalization(source, gain, offset) if over_last and known and gain is not None else None
    offset, scaled = _vector_of(node, "Add")
    gain, normalized = _vector_of(node if scaled is None else scaled.producer(), "Mul")
    centred = None if normalized is None else _centred(normalized)
    if gain is None or centred is None:
        return None
    taken = centred.producer()
    source = taken.inputs[0] if taken is not None and taken.op_type == "Sub" else centred
    return Normalization(source, gain, offset)


def _is_vector(value: ir.Value | None) -> bool:
    return value is not None and is_constant(value) and value.dtype == ir.DataType.FLOAT and rank_of(value) == 1


def _vector_of(node: ir.Node | None, op_type: str) -> tuple[ir.Value | None, ir.Value | None]:
    """Returns the constant vector and the other operand of an Add or Mul; None and None if `node` is no such one."""
    if node is None or not is_standard(node) or node.op_type != op_type:
        return None, None
    first, second = node.inputs
    if _is_vector(first) == _is_vector(second):
        return None, None
    return (first, second) if _is_vector(first) else (second, first)


def _centred(value: ir.Value) -> ir.Value | None:
    """Returns what `value` is, divided by a root, as exporters write a normalization out, or None."""
    node = value.producer()
    if node is None or node.op_type not in ("Div", "Mul"):
        return None
    wanted = "Sqrt" if node.op_type == "Div" else "Reciprocal"
    for dividend, divisor in (node.inputs, node.inputs[::-1])[: 1 if node.op_type == "Div" else 2]:
        producer = None if divisor is None else divisor.producer()
        if producer is not None and producer.op_type == wanted:
            return dividend
    return None


def _normalized_before(value: ir.Value | None) -> Normalization | None:
    """Returns the normalization whose result is one of the terms of the sum `value`, or None."""
    node = None if value is None else value.producer()
    if node is None or not is_standard(node) or node.op_type != "Add":
        return None
    found = [find_normalization(term) for term in node.inputs if term is not None]
    return next((each for each in found if each is not None), None)


def _excess(reach: Values) -> Values:
    """Returns how far beyond the median each channel reaches, at least 1; not a number where the median is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Values = np.maximum(reach / np.median(reach), 1.0) ** _POWER
    return found


def _reach_alone(normalization: Normalization) -> Values:
    gain, offset = _constants(normalization)
    found: Values = _DEVIATIONS * np.abs(gain) + np.abs(offset)
    return found


def _constants(normalization: Normalization) -> tuple[Values, Values]:
    gain = array_of(normalization.gain).astype(np.float64)
    offset = normalization.offset
    return gain, np.zeros_like(gain) if offset is None else array_of(offset).astype(np.float64)


def _reach_of_sum(entry: ir.Value) -> Values | None:
    bias, product = _vector_of(entry.producer(), "Add")
    node = entry.producer() if product is None else product.producer()
    if node is None or not is_product(node) or node.inputs[0] is None:
        return None
    if node.op_type == "Gemm" and bias is None and len(node.inputs) > 2:
        bias = node.inputs[2]
    normalization = find_normalization(node.inputs[0])
    weight = by_input(node, array_of(node.inputs[1]))
    if normalization is None or array_of(normalization.gain).shape != weight.shape[:1]:
        return None
    gain, offset = _constants(normalization)
    terms = weight * gain.astype(np.float32)[:, None]
    mean = (weight * offset.astype(np.float32)[:, None]).sum(axis=0, dtype=np.float64)
    if _is_vector(bias):
        mean = mean + array_of(bias)
    spread = np.sqrt(np.square(terms).sum(axis=0, dtype=np.float64)) + np.abs(terms).max(axis=0, initial=0.0)
    found: Values = np.maximum(mean + _SUM_DEVIATIONS * spread, 0.0)
    return found


def _activated(value: ir.Value) -> ir.Value | None:
    """Returns the ``x`` of an activation ``x * g(x)`` that `value` is the result of, or None."""
    node = value.producer()
    if node is not None and node.op_type in _ACTIVATIONS:
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
        if node is None or not is_standard(node) or node.op_type not in _GATES:
            return False
        waiting += [each for each in node.inputs if each is not None]
    return gate is not entry
