"""Attributes of convolutions: those that ONNX has defaults for are written out for the compiler of an NPU."""

from __future__ import annotations

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, is_standard, shape_of, tensor_of
from quarkfast.graph.subgraphs import nodes_of

__all__ = ["write_conv_attributes"]


def write_conv_attributes(model: ir.Model) -> None:
    """Writes into every Conv the attributes that it leaves to their defaults, in place.

    1. ``kernel_shape``, ``strides``, ``dilations``, ``group`` and ``pads`` are written where they are missing, the
       first from a constant weight.
    2. ``auto_pad`` becomes the ``pads`` that it means, where the input's size is known.

    The compiler of Ryzen AI 1.8 ends the process at a Conv without them ("XIR conv2d stride REQUIRED",
    onnxsim/onnxsim#1404). Idempotent. Error: none.
    """
    for node in nodes_of(model.graph):
        if is_standard(node) and node.op_type == "Conv" and is_constant(node.inputs[1]):
            _write_attributes(node, list(shape_of(tensor_of(node.inputs[1]))[2:]))


def _write_attributes(node: ir.Node, kernel: list[int]) -> None:
    ones = [1] * len(kernel)
    if "group" not in node.attributes:
        node.attributes["group"] = ir.AttrInt64("group", 1)
    for name, value in (("kernel_shape", kernel), ("strides", ones), ("dilations", ones)):
        if name not in node.attributes:
            node.attributes[name] = ir.AttrInt64s(name, value)
    pads = _pads(node, kernel)
    if pads is not None:
        node.attributes.pop("auto_pad", None)
        node.attributes["pads"] = ir.AttrInt64s("pads", pads)


def _pads(node: ir.Node, kernel: list[int]) -> list[int] | None:
    """Returns the pads that `node` works with; None if they depend on a size that is not known."""
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        zeros = [0] * (2 * len(kernel))
        return zeros if mode == "VALID" else list(node.attributes.get_ints("pads", zeros))
    shape = None if node.inputs[0] is None else node.inputs[0].shape
    sizes = [size for size in (shape or ())[2:] if isinstance(size, int)]
    if len(sizes) != len(kernel):
        return None
    begin, end = [], []
    steps = zip(node.attributes.get_ints("strides"), node.attributes.get_ints("dilations"), strict=True)
    for size, length, (stride, dilation) in zip(sizes, kernel, steps, strict=True):
        total = max((-(-size // stride) - 1) * stride + (length - 1) * dilation + 1 - size, 0)
        first = total // 2 if mode == "SAME_UPPER" else total - total // 2
        begin.append(first)
        end.append(total - first)
    return begin + end
