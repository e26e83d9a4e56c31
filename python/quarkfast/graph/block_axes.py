"""Along which axis the blocks of a tensor lie: that over which the operators that read it add up products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from quarkfast.deferred import ir
from quarkfast.graph.access import rank_of
from quarkfast.graph.schemas import key_of

__all__ = ["Use", "activation_axes", "constant_axis"]

Use = tuple[ir.Node, int]

# Where no operator says otherwise, Quark's default: the channels of an image.
_DEFAULT = 1


def _channels(node: ir.Node, index: int) -> int:
    return _DEFAULT


def _matmul(node: ir.Node, index: int) -> int:
    return -1 if index == 0 else -2


def _gemm(node: ir.Node, index: int) -> int:
    if index == 0:
        return 0 if node.attributes.get_int("transA", 0) else 1
    return 1 if node.attributes.get_int("transB", 0) else 0


def _softmax(node: ir.Node, index: int) -> int:
    return node.attributes.get_int("axis", -1)


def _fused_matmul(node: ir.Node, index: int) -> int:
    transposed = node.attributes.get_int("transA" if index == 0 else "transB", 0)
    return -2 if bool(transposed) == (index == 0) else -1


# Operator -> the axis that it wants of its first two inputs.
_WANTED: Mapping[str, Callable[[ir.Node, int], int]] = MappingProxyType(
    {
        "Conv": _channels,
        "ConvTranspose": _channels,
        "Gemm": _gemm,
        "MatMul": _matmul,
        "Softmax": _softmax,
        "com.microsoft::Attention": _matmul,
        "com.microsoft::FusedConv": _channels,
        "com.microsoft::FusedGemm": _gemm,
        "com.microsoft::FusedMatMul": _fused_matmul,
    }
)


def activation_axes(value: ir.Value, uses: Sequence[Use]) -> list[tuple[int, list[Use]]]:
    """Returns the axes along which an activation is needed in blocks, each with those of `uses` that read it so.

    1. Conv and ConvTranspose sum over axis 1, MatMul over the last and the last but one, Gemm as its transpositions
       say; Softmax runs along its own axis.
    2. An operator without such an axis takes the first one that another reader has, then that of the producer (the last
       one behind MatMul), then 1.

    Quark gives a tensor one axis, that of the reader it meets last (its specification, section 6.5), so that a tensor
    that is the first operand of one MatMul and the second of another is in blocks across the sum in one of them.
    """
    wanted = [_wanted(node, index) for node, index in uses]
    default = next((axis for axis in wanted if axis is not None), _axis_behind(value.producer()))
    found: dict[int, tuple[int, list[Use]]] = {}
    for use, axis in zip(uses, wanted, strict=True):
        chosen = default if axis is None else axis
        found.setdefault(_normalized(chosen, value), (chosen, []))[1].append(use)
    if not found:
        return [(_flat(default, value), [])]
    return [(_flat(axis, value), readers) for axis, readers in found.values()]


def constant_axis(node: ir.Node, index: int) -> int:
    """Returns the axis, from 0, of the blocks of a constant that is input `index` of `node`; a vector has only one."""
    rank = rank_of(node.inputs[index])
    if rank < 2:
        return 0
    wanted = _wanted(node, index)
    return (_DEFAULT if wanted is None else wanted) % rank


def _wanted(node: ir.Node, index: int) -> int | None:
    rule = _WANTED.get(key_of(node)) if index < 2 else None
    return None if rule is None else rule(node, index)


def _axis_behind(producer: ir.Node | None) -> int:
    return -1 if producer is not None and producer.op_type in ("MatMul", "FusedMatMul") else _DEFAULT


def _normalized(axis: int, value: ir.Value) -> int:
    return axis if value.shape is None or len(value.shape) == 0 else axis % len(value.shape)


def _flat(axis: int, value: ir.Value) -> int:
    return 0 if value.shape is not None and len(value.shape) < 2 else axis
