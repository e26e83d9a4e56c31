"""Audits: what breaks a device's rules in a model that is quantized already."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

import numpy as np

from quarkfast.deferred import ir
from quarkfast.formats import ScalarFormat, find
from quarkfast.graph.access import array_of, is_read_once, is_standard, name_of, rank_of
from quarkfast.graph.operators import find_operator
from quarkfast.graph.opset import opset_version
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.graph.written_codes import Codes, codes_of_input, codes_of_output, codes_of_pair, is_pair, reads_floats
from quarkfast.qparams import stored_scale
from quarkfast.targets.checks.finding import Finding, Takes
from quarkfast.targets.constraints.shift_rules import MOVES, RULES

__all__ = ["bias_scales", "fixed_points", "float_layers", "float_types", "operator_sets", "scales", "shifts", "types"]

_NODES = ("QuantizeLinear", "DequantizeLinear")
# The first operator set with these nodes, with a scale for each channel, and with scales in other types than float32.
_FIRST, _CHANNELS, _SCALES = 10, 13, 19


def operator_sets(model: ir.Model) -> Iterator[Finding]:
    """Yields a finding for the first standard node of a pair that a later operator set brought than the model has.

    It is no matter of the device: a target's audits see nodes of onnxruntime's domain as standard ones.
    """
    version = opset_version(model)
    for node in nodes_of(model.graph):
        if node.op_type in _NODES and node.domain in ("", "ai.onnx"):
            needed, what = _needed(node)
            if needed > version:
                text = f"expected operator set {needed}, which has {node.op_type} {what}, or newer, got {version}"
                yield Finding("opset", "error", name_of(node), f"model: {text}")
                return


def _needed(node: ir.Node) -> tuple[int, str]:
    """Returns the first operator set that has a node, and what it is that a later one brought."""
    codes, found = codes_of_pair(node), [(_FIRST, "at all")]
    if codes is not None and codes.scale.size > 1:
        found.append((_CHANNELS, "with a scale for each channel"))
    if codes is not None and codes.scale.dtype != np.float32:
        found.append((_SCALES, f"with scales in {codes.scale.dtype}"))
    if codes is not None and codes.dtype is not None:
        name = codes.dtype.name.lower()
        row = find(name)
        since = row.linear_opset if node.op_type == "QuantizeLinear" else row.dequantize_opset
        if isinstance(row, ScalarFormat) and since is not None:
            found.append((since, f"with {name}"))
    return max(found)


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


def scales(model: ir.Model, target: Takes) -> Iterator[Finding]:
    """Yields a finding for each scale that is not positive and finite, and for each that is computed as the model runs.

    ONNX says nothing of such scales; ONNX Runtime divides by them.
    """
    seen = set()
    for node in filter(is_pair, nodes_of(model.graph)):
        value = node.inputs[1] if len(node.inputs) > 1 else None
        if value is None or name_of(value) in seen:
            continue
        seen.add(name_of(value))
        codes = codes_of_pair(node)
        if codes is None:
            text = f"{name_of(value)!r}: expected a constant scale and zero point, got ones that are computed"
            yield Finding("scale", "error", name_of(node), text)
            continue
        found = codes.scale.astype(np.float64).ravel()
        wrong = found[~(np.isfinite(found) & (found > 0))]
        if wrong.size:
            text = f"{name_of(value)!r}: expected positive, finite scales, got {wrong[0]:g}"
            yield Finding("scale", "error", name_of(node), text)


def float_layers(model: ir.Model, target: Takes) -> Iterator[Finding]:
    """Yields a finding for each type of layer with weights of which some read floats, or one if all of all types do."""
    total = 0
    found: dict[str, list[str]] = defaultdict(list)
    for node in nodes_of(model.graph):
        total += find_operator(node) is not None
        if reads_floats(node):
            found[node.op_type].append(name_of(node))
    if total and total == sum(map(len, found.values())):
        text = "model: expected layers that read codes behind DequantizeLinear, got none"
        yield Finding("float", "error", "", text)
        return
    for op_type, names in found.items():
        text = f"{len(names)} {op_type} read floats and run on the CPU; the first is {names[0]!r}"
        yield Finding("float", "warning", names[0], text)


# The mantissa of a power of two, as np.frexp gives it.
_HALF = 0.5


def fixed_points(model: ir.Model, target: Takes) -> Iterator[Finding]:
    """Yields a finding for each tensor whose scales are several, no powers of two, or beside a zero point."""
    for node, codes in _all_codes(model):
        values = codes.scale.astype(np.float64)
        if values.size != 1:
            yield _error("per-tensor", node, f"{codes.tensor!r}: expected one scale, got {values.size}")
        if (np.frexp(values)[0] != _HALF).any():
            got = f"{values.ravel()[0]:.9g}"
            yield _error("power-of-two", node, f"{codes.tensor!r}: expected a power of two as scale, got {got}")
        if codes.zero_point is not None and not np.isin(codes.zero_point, _middles(codes)).all():
            got = f"{codes.zero_point.ravel()[0]:g}"
            expected = " or ".join(map(str, _middles(codes)))
            yield _error("zero-point", node, f"{codes.tensor!r}: expected {expected} as zero point, got {got}")


def shifts(model: ir.Model, target: Takes) -> Iterator[Finding]:
    """Yields a finding for each scale that the rules of `quarkfast.targets.constraints.shift_rules` would move."""
    for node in nodes_of(model.graph):
        for rule, names in (*RULES, MOVES):
            if is_standard(node) and node.op_type in names:
                written = _WrittenPositions()
                rule(node, written)
                for place, found, wanted in written.moves:
                    text = f"{place}: expected the position {wanted} (a scale of 2^{-wanted}), got {found}"
                    yield _error(names[node.op_type].replace("_", "-"), node, text)


class _WrittenPositions:
    """Positions as they are written, for a rule that would move them: what it moves is what breaks it."""

    gates: Collection[str] = ("HardSigmoid",)

    def __init__(self) -> None:
        self.moves: list[tuple[str, int, int]] = []

    def of_input(self, node: ir.Node, index: int) -> int | None:
        return _position(codes_of_input(node, index))

    def of_output(self, node: ir.Node) -> int | None:
        return _position(codes_of_output(node))

    def is_zero(self, node: ir.Node, index: int) -> bool:
        codes = codes_of_input(node, index)
        return codes is not None and codes.values is not None and not array_of(codes.values).any()

    def move_input(self, node: ir.Node, index: int, position: int) -> None:
        found = self.of_input(node, index)
        if found is not None and found != position:
            self.moves.append((f"input {index}, {name_of(node.inputs[index])!r}", found, position))

    def move_output(self, node: ir.Node, position: int) -> None:
        found = self.of_output(node)
        if found is not None and found != position:
            self.moves.append((f"output {name_of(node.outputs[0])!r}", found, position))


def _all_codes(model: ir.Model) -> Iterator[tuple[ir.Node, Codes]]:
    """Yields each tensor of codes once, with a node that reads or writes it and no float beside it."""
    seen: set[str] = set()
    for node in nodes_of(model.graph):
        if is_pair(node) or reads_floats(node):
            continue
        for codes in (*(codes_of_input(node, index) for index in range(len(node.inputs))), codes_of_output(node)):
            if codes is not None and codes.tensor not in seen:
                seen.add(codes.tensor)
                yield node, codes


def _middles(codes: Codes) -> list[int]:
    """Returns the zero points that need no sum: 0, and the middle of unsigned codes, which turns the sign bit."""
    unsigned = codes.dtype is not None and codes.dtype.is_integer() and not codes.dtype.is_signed()
    return [0, 1 << (int(codes.dtype.bitwidth) - 1)] if codes.dtype is not None and unsigned else [0]


def _position(codes: Codes | None) -> int | None:
    """Returns the number of bits behind the point; None for codes that `fixed_points` finds fault with."""
    if codes is None or codes.scale.size != 1:
        return None
    mantissa, exponent = np.frexp(float(codes.scale.item()))
    return 1 - int(exponent) if mantissa == _HALF else None


def _error(rule: str, node: ir.Node, text: str) -> Finding:
    return Finding(rule, "error", name_of(node), text)
