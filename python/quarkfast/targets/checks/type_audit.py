"""Whether the codes of a quantized model have types that a device takes, and biases the scale of their products."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import is_read_once, is_standard, name_of, rank_of
from quarkfast.graph.operators import find_operator
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.graph.written_codes import Codes, codes_of_input, is_pair, reads_floats
from quarkfast.qparams import stored_scale
from quarkfast.targets.checks.finding import Finding, Takes

__all__ = ["bias_scales", "float_types", "types"]

# What the integers of accelerators have.
_WIDTHS = (8, 16)
_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)


def types(model: ir.Model, target: Takes) -> Iterator[Finding]:
    """Yields a finding for each tensor of codes that the device does not take for its role.

    A device that names no types takes integers of 8 and 16 bits. Biases are int32 or int16, or what weights are where
    the device quantizes them alike; constants that are no weights, such as an operand of an Add, have the type of
    either, and a vector that an Add gives to a MatMul is its bias. A layer that reads floats runs elsewhere.
    """
    for node in nodes_of(model.graph):
        operator = find_operator(node)
        for index in range(0 if is_pair(node) or reads_floats(node) else len(node.inputs)):
            codes = codes_of_input(node, index)
            if codes is None or codes.dtype is None:
                continue
            roles = ["activations"] if codes.values is None else ["activations", "weights"]
            if _is_added_to_a_product(node, index, codes):
                roles.append("biases")
            if operator is not None and codes.values is not None and index in (operator.weight, operator.bias):
                roles = ["weights" if index == operator.weight else "biases"]
            if not any(_is_taken(codes.dtype, role, target) for role in roles):
                got = codes.dtype.name.lower()
                text = f"{codes.tensor!r}: expected {_expected(roles[-1], target)} for {roles[-1]}, got {got}"
                yield Finding("type", "error", name_of(node), text)


def _is_added_to_a_product(node: ir.Node, index: int, codes: Codes) -> bool:
    """Whether `codes` are a vector that `node` adds to a matrix product, which nothing else reads."""
    if node.op_type != "Add" or not is_standard(node) or codes.values is None or rank_of(codes.values) != 1:
        return False
    product = node.inputs[1 - index]
    producer = None if product is None or not is_read_once(product) else product.producer()
    return producer is not None and producer.op_type == "MatMul"


def _is_taken(dtype: ir.DataType, role: str, target: Takes) -> bool:
    if role == "biases" and target.bias != "weight":
        return dtype in (ir.DataType.INT32, ir.DataType.INT16)
    names = target.activation_types if role == "activations" else target.weight_types
    return dtype.name.lower() in names if names else dtype.is_integer() and dtype.bitwidth in _WIDTHS


def _expected(role: str, target: Takes) -> str:
    if role == "biases" and target.bias != "weight":
        return "int32 or int16"
    names = target.activation_types if role == "activations" else target.weight_types
    return " or ".join(names) if names else "integers of 8 or 16 bits"


def float_types(model: ir.Model, target: Takes) -> Iterator[Finding]:
    """Yields a finding for each input of codes in integers, on a device that computes in floats and blocks.

    Source:
        Ryzen AI compiles models for the NPU in bfloat16 from float models and from models rounded to 16 bits or blocks;
        those in integers have targets of their own.
    """
    for node in nodes_of(model.graph):
        for index in range(0 if is_pair(node) else len(node.inputs)):
            codes = codes_of_input(node, index)
            if codes is not None and codes.dtype is not None and codes.dtype.is_integer():
                text = f"{codes.tensor!r}: expected floats of 16 bits or blocks, got {codes.dtype.name.lower()}"
                yield Finding("type", "error", name_of(node), text)


def bias_scales(model: ir.Model, target: Takes) -> Iterator[Finding]:
    """Yields a finding for each int32 bias whose scale is not that of the products of codes that it is added to.

    Beside weights of more than 8 bits products are no sums of int32, and biases have scales of their own.
    """
    for node in nodes_of(model.graph):
        operator = find_operator(node)
        if operator is None or operator.bias is None:
            continue
        data, weight, bias = (codes_of_input(node, index) for index in (0, operator.weight, operator.bias))
        if data is None or weight is None or bias is None or bias.dtype != ir.DataType.INT32:
            continue
        if weight.dtype not in _BYTES:
            continue
        # Of channels whose weights are all but zero the product is no normal number, which a scale has to be.
        product = np.maximum(np.float32(data.scale) * np.float32(weight.scale), np.finfo(np.float32).tiny)
        if bias.scale.dtype == np.float16:
            product = stored_scale(product.astype(np.float64), np.float16)
        expected, found = np.broadcast_arrays(product.ravel(), bias.scale.astype(product.dtype).ravel())
        # Another tool may multiply in doubles or in float16: one rounding apart.
        if (np.abs(expected - found) > np.spacing(np.abs(expected))).any():
            got = f"{found[0]:.9g} for a product of {expected[0]:.9g}"
            text = f"{bias.tensor!r}: expected the scale of the products, got {got}"
            yield Finding("bias-scale", "error", name_of(node), text)
