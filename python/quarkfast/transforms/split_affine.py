"""Affine splitting: factors behind a Concat move in front of it where the ranges of its inputs lie far apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quarkfast.config import POLICY, Policy
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_read_once, is_standard, name_of
from quarkfast.graph.affine import Affine, affine_of, data_index, dims_of
from quarkfast.graph.affine_flows import parts_of_concat
from quarkfast.graph.builder import GraphBuilder, drop_unread
from quarkfast.graph.linear_layers import layer_in_front
from quarkfast.graph.rewriting import absorb
from quarkfast.transforms.infer_types import infer_types

__all__ = ["split_affine"]

# ONNX's default of BatchNormalization's attribute.
_EPSILON = 1e-5


def split_affine(model: ir.Model, policy: Policy = POLICY) -> bool:
    """Moves the factors of steps behind a Concat in front of it, in place; returns whether there was such a Concat.

    A BatchNormalization behind a Concat brings features together that lie far apart: in front of it embeddings reach
    from -0.5 to 0.5, and what convolutions make of them from -600 to 600. One scale rounds the former to zero.

    1. Steps are those of affine folding and BatchNormalization: ``y = factor * x + offset`` for each channel. The first
       of them alone reads the Concat, each of the others the one before; none but the last is a graph output.
    2. They move where the largest magnitudes of the factors of two inputs differ by more than
       `Policy.fold_concat_ratio`, or where one is a
       BatchNormalization and each input comes from a linear layer of its own, which takes its part. Each input is
       multiplied by its part of the factors, and one Add stays behind the Concat.
    3. A Concat with a constant among its inputs stays.

    Each input is rounded at its own scale and then at one no wider than that behind the steps. Idempotent; graph inputs
    and outputs are kept. Error: rounding of factors and offsets to float32 where they are of several steps.
    """
    concats = [node for node in model.graph if is_standard(node) and node.op_type == "Concat" and _has_step(node)]
    if not concats:
        return False
    infer_types(model)
    builder = GraphBuilder(model)
    changed = [_split(builder, concat, policy) for concat in concats]
    drop_unread(model.graph)
    return any(changed)


def _has_step(concat: ir.Node) -> bool:
    reader = _reader(concat)
    return reader is not None and (data_index(reader) is not None or _is_norm(reader))


def _reader(node: ir.Node) -> ir.Node | None:
    """Returns what alone reads `node`, in the same graph."""
    value = node.outputs[0]
    reader = next(iter(value.uses()))[0] if is_read_once(value) else None
    return reader if reader is not None and reader.graph is node.graph else None


def _is_norm(node: ir.Node) -> bool:
    """Whether `node` is a BatchNormalization that knows mean and variance."""
    if not is_standard(node) or node.op_type != "BatchNormalization":
        return False
    fixed = not node.attributes.get_int("training_mode", 0) and len(node.outputs) == 1
    return fixed and all(
        value is not None and is_constant(value) and not value.is_graph_input() and value.dtype == ir.DataType.FLOAT
        for value in node.inputs[1:5]
    )


def _split(builder: GraphBuilder, concat: ir.Node, policy: Policy) -> bool:
    run, total = _steps(concat)
    parts = [] if not run or any(map(is_constant, concat.inputs)) else parts_of_concat(concat, total)
    if not parts or not _pays(concat, run, parts, policy):
        return False
    for index, part in enumerate(parts):
        if part.has_factor:
            _multiply(builder, concat, index, part, f"{name_of(run[-1])}_{index}")
    _leave_offset(builder, concat, run, total)
    return True


def _multiply(builder: GraphBuilder, concat: ir.Node, index: int, part: Affine, name: str) -> None:
    """Puts a Mul in front of an input of a Concat."""
    value = concat.inputs[index]
    assert value is not None
    factor = builder.initializer(f"{name}_factor", part.shaped(part.factor).astype(np.float32))
    product = builder.call(ir.Node("", "Mul", [value, factor]), name)
    product.outputs[0].type, product.outputs[0].shape = value.type, value.shape
    builder.graph.insert_before(concat, product)
    concat.replace_input_with(index, product.outputs[0])


def _steps(concat: ir.Node) -> tuple[list[ir.Node], Affine]:
    """Returns the steps that follow a Concat, and what they do together."""
    run, total = list[ir.Node](), Affine(np.ones(1), np.zeros(1))
    reader = _reader(concat)
    while reader is not None:
        step = _affine_of_norm(reader) if _is_norm(reader) else affine_of(reader)
        joined = None if step is None else total.then(step)
        if joined is None or not joined.is_usable:
            break
        run.append(reader)
        total, reader = joined, _reader(reader)
    return run, total


def _affine_of_norm(norm: ir.Node) -> Affine | None:
    dims = None if norm.inputs[0] is None else dims_of(norm.inputs[0])
    if dims is None or len(dims) < 2:
        return None
    gamma, beta, mean, variance = (array_of(each).astype(np.float64) for each in norm.inputs[1:5])
    factor = gamma / np.sqrt(variance + norm.attributes.get_float("epsilon", _EPSILON))
    return Affine(factor, beta - mean * factor, 1 - len(dims))


def _pays(concat: ir.Node, run: Sequence[ir.Node], parts: Sequence[Affine], policy: Policy) -> bool:
    if any(map(_is_norm, run)) and all(_is_taken(value) for value in concat.inputs):
        return True
    reach = [float(np.abs(part.factor).max()) for part in parts]
    return max(reach) > policy.fold_concat_ratio * min(reach)


def _is_taken(value: ir.Value | None) -> bool:
    """Whether a layer that nothing else reads takes a step behind `value`."""
    layer = layer_in_front(value) if value is not None and is_read_once(value) else None
    return layer is not None and is_read_once(layer.weight)


def _leave_offset(builder: GraphBuilder, concat: ir.Node, run: Sequence[ir.Node], total: Affine) -> None:
    """Makes the last step an Add of the offset, and removes the others; all of them where nothing is added."""
    last = run[-1]
    for node in run if not total.has_offset else run[:-1]:
        absorb(builder.graph, node, concat)
    if not total.has_offset:
        return
    offset = builder.initializer(f"{name_of(last)}_offset", total.shaped(total.offset).astype(np.float32))
    last.op_type = "Add"
    last.attributes.clear()
    last.resize_inputs(2)
    last.replace_input_with(0, concat.outputs[0])
    last.replace_input_with(1, offset)
