"""Steps of recurrent layers: what their weights multiply, the input and the state of the step before."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, is_read_once, is_standard, name_of, shape_of, tensor_of
from quarkfast.graph.attention import adds_bias
from quarkfast.graph.operators import RECURRENT_WEIGHTS, is_recurrent

__all__ = [
    "FIRST_STATE",
    "LENGTHS",
    "LinearLayer",
    "Steps",
    "Window",
    "layer_of",
    "linear_layers",
    "states_before",
    "steps_of",
    "without_padding",
]

LENGTHS, FIRST_STATE = 4, 5
"""The inputs of a recurrent layer that are the lengths of its sequences, and the state that it begins with."""

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


class Steps(NamedTuple):
    """How a weight of a recurrent layer is multiplied.

    Attributes:
        of_state: Whether it multiplies the state of the step before, in place of the input.
        backward: Whether each direction begins at the last step.
    """

    of_state: bool
    backward: tuple[bool, ...]


def steps_of(node: ir.Node, *, of_state: bool) -> Steps | None:
    """Returns how a recurrent layer multiplies one of its weights; None where the weight multiplies anything else.

    A GRU without `linear_before_reset` multiplies part of R by the state times the reset gate. ONNX Runtime has no
    recurrent layers whose batches come first.
    """
    resets_first = node.op_type == "GRU" and not node.attributes.get_int("linear_before_reset", 0)
    if node.attributes.get_int("layout", 0) or (of_state and resets_first):
        return None
    backward = _DIRECTIONS.get(node.attributes.get_string("direction", "forward") or "")
    return None if backward is None else Steps(of_state, backward)


def without_padding(values: NDArray[Any], lengths: NDArray[Any] | None) -> NDArray[Any]:
    """Returns sequences ``[steps, n, ...]`` with zeros behind their ends.

    Args:
        values: The sequences.
        lengths: Number of steps of each, ``[n]``; None for all of them.

    Example:
        >>> without_padding(np.ones((3, 2, 1)), np.array([3, 1]))[..., 0].tolist()
        [[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]]
    """
    if lengths is None:
        return values
    inside = np.arange(len(values))[:, None] < lengths
    return np.where(inside.reshape(*inside.shape, *[1] * (values.ndim - 2)), values, values.dtype.type(0))


def states_before(
    states: NDArray[np.float32],
    backward: tuple[bool, ...],
    first: NDArray[np.float32] | None,
    lengths: NDArray[Any] | None,
) -> NDArray[np.float32]:
    """Returns the state that each step begins with, ``[steps, n, directions, k]``, zeros behind the ends.

    Args:
        states: The states that steps give, ``[steps, directions, n, k]``, as a recurrent layer has them in Y.
        backward: Whether each direction begins at the last step.
        first: The state before the first of them, ``[directions, n, k]``; None for zeros.
        lengths: Number of steps of each sequence, ``[n]``; None for all of them.

    Example:
        >>> y = np.float32([1, 2, 3]).reshape(3, 1, 1, 1)
        >>> states_before(y, (False,), None, None).reshape(-1).tolist()
        [0.0, 1.0, 2.0]
        >>> states_before(y, (True,), np.float32([[[9]]]), None).reshape(-1).tolist()
        [2.0, 3.0, 9.0]
    """
    steps, _, count, _ = states.shape
    found = np.zeros_like(states)
    ends = np.full(count, steps) if lengths is None else lengths
    for direction, is_backward in enumerate(backward):
        begin = ends - 1 if is_backward else np.zeros(count, np.int64)
        if is_backward:
            found[:-1, direction] = states[1:, direction]
        else:
            found[1:, direction] = states[:-1, direction]
        some = ends > 0
        found[begin[some], direction, some] = 0 if first is None else first[direction, some]
    return without_padding(found.transpose(0, 2, 1, 3), lengths)


class Window(NamedTuple):
    """Where a convolution reads its input.

    Attributes:
        kernel: Size of the kernel along each spatial axis.
        strides: Steps between outputs, of a transposed convolution between inputs.
        dilations: Steps between the numbers that one output multiplies.
        pads: Zeros in front of and behind each axis, as ONNX orders them; of a transposed convolution what is cut off.
        output_padding: What a transposed convolution adds behind each axis.
        transposed: Whether it is a transposed convolution.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    output_padding: tuple[int, ...]
    transposed: bool = False

    def output_size(self, axis: int, size: int) -> int:
        """Returns the length of the output along a spatial axis whose input has `size`."""
        reach = (self.kernel[axis] - 1) * self.dilations[axis]
        pads = self.pads[axis] + self.pads[axis + len(self.kernel)]
        if self.transposed:
            return (size - 1) * self.strides[axis] + reach + 1 - pads + self.output_padding[axis]
        return (size + pads - reach - 1) // self.strides[axis] + 1

    def sources(self, axis: int, outputs: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Returns the inputs that outputs read along an axis, ``[n, kernel]``, and which of them exist."""
        steps = np.arange(self.kernel[axis]) * self.dilations[axis]
        if self.transposed:
            places = outputs[:, None] + self.pads[axis] - steps
            found, rest = np.divmod(places, self.strides[axis])
            return found, (rest == 0) & (found >= 0) & (found < size)
        found = outputs[:, None] * self.strides[axis] - self.pads[axis] + steps
        return found, (found >= 0) & (found < size)


@dataclass(frozen=True)
class LinearLayer:
    """A Conv, ConvTranspose, Gemm or MatMul with a constant weight, or one weight of a recurrent layer.

    With `g` groups, `m` outputs and `k` inputs of each, the weight is a matrix ``[g, m, k]`` and the layer a product
    of its rows with rows of the input: patches of a convolution, vectors of a matrix product, steps of a sequence.
    The groups of a recurrent layer are its directions.

    Attributes:
        node: Name of the node.
        op_type: Its operator.
        data: Name of the tensor that it multiplies.
        weight: Name of its weight.
        bias: Name of its bias where that is a constant of its own, or None.
        shape: Dimensions of the weight.
        groups: Number of groups.
        by_column: Whether outputs lie along the last axis of a matrix.
        window: Where a convolution reads; None for others.
        steps: How a recurrent layer multiplies the weight; None for others.

    Example:
        >>> import numpy as np
        >>> layer = LinearLayer("n", "MatMul", "x", "w", None, (2, 3), by_column=True)
        >>> layer.to_rows(np.arange(6).reshape(2, 3)).tolist()
        [[[0, 3], [1, 4], [2, 5]]]
    """

    node: str
    op_type: str
    data: str
    weight: str
    bias: str | None
    shape: tuple[int, ...]
    groups: int = 1
    by_column: bool = False
    window: Window | None = None
    steps: Steps | None = None

    @cached_property
    def matrix_shape(self) -> tuple[int, int, int]:
        """Groups, outputs of each, and numbers that an output sums over."""
        if self.steps is not None:
            directions, outputs, inputs = self.shape
            return directions, outputs, inputs
        if self.window is not None and self.window.transposed:
            return self.groups, self.shape[1], self.shape[0] // self.groups * _product(self.window.kernel)
        outputs = self.shape[1] if self.by_column else self.shape[0]
        return self.groups, outputs // self.groups, _product(self.shape) // outputs

    def to_rows(self, weight: NDArray[Any]) -> NDArray[Any]:
        """Returns a weight as ``[groups, outputs, inputs]``."""
        groups, outputs, inputs = self.matrix_shape
        if self.window is not None and self.window.transposed:
            split = weight.reshape(groups, -1, outputs, _product(self.window.kernel))
            return np.moveaxis(split, 2, 1).reshape(groups, outputs, inputs)
        return (weight.T if self.by_column else weight).reshape(groups, outputs, inputs)

    def from_rows(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Returns the contiguous weight that has these rows: the inverse of :meth:`to_rows`."""
        groups, outputs, _ = self.matrix_shape
        if self.window is not None and self.window.transposed:
            split = rows.reshape(groups, outputs, -1, _product(self.window.kernel))
            return np.ascontiguousarray(np.moveaxis(split, 1, 2)).reshape(self.shape)
        if self.by_column:
            return np.ascontiguousarray(rows.reshape(self.shape[1], self.shape[0]).T)
        return np.ascontiguousarray(rows).reshape(self.shape)


def linear_layers(
    model: ir.Model, *, added: bool = False, shared: Collection[str] = (), recurrent: bool = False
) -> Iterator[LinearLayer]:
    """Yields the layers of the model's own graph whose weight is a constant that nothing else reads, in order.

    Args:
        model: The model.
        added: Whether a constant vector that the only reader of a MatMul adds is its bias too.
        shared: Names of weights that several layers may read; those have no bias.
        recurrent: Whether W and R of a GRU, LSTM or RNN are two layers, without a bias.

    Left out are layers of other shapes: a MatMul whose weight is no matrix, a Gemm that transposes its input or scales
    its product, a convolution whose padding depends on the input's size, and weights that recurrent layers multiply in
    other ways (`quarkfast.reconstruction.linear_layer.steps_of`).
    """
    for node in model.graph:
        if is_recurrent(node):
            yield from _recurrent(node) if recurrent else ()
            continue
        weight = node.inputs[1] if is_standard(node) and len(node.inputs) > 1 else None
        if weight is None or not is_constant(weight):
            continue
        alone = is_read_once(weight)
        layer = layer_of(node) if alone or name_of(weight) in shared else None
        if layer is not None and _product(layer.shape):
            if not alone:
                layer = replace(layer, bias=None)
            elif added and layer.op_type == "MatMul":
                layer = replace(layer, bias=_added(node))
            yield layer


def _recurrent(node: ir.Node) -> Iterator[LinearLayer]:
    """Yields W, and behind it R: what R multiplies is known once W is."""
    for index in RECURRENT_WEIGHTS:
        weight, steps = node.inputs[index], steps_of(node, of_state=index != RECURRENT_WEIGHTS[0])
        if steps is None or weight is None or not is_constant(weight) or not is_read_once(weight):
            continue
        shape = shape_of(tensor_of(weight))
        if len(shape) == 3 and shape[0] == len(steps.backward) and _product(shape):
            named = name_of(node), node.op_type, name_of(node.inputs[0]), name_of(weight), None, shape
            yield LinearLayer(*named, groups=shape[0], steps=steps)


def _added(node: ir.Node) -> str | None:
    """Returns the name of the constant that is added to a product and nothing else, or None."""
    result = node.outputs[0]
    if result.is_graph_output() or len(result.uses()) != 1:
        return None
    adding, place = next(iter(result.uses()))
    bias = adding.inputs[1 - place] if adds_bias(adding) == 1 - place and adding.graph is node.graph else None
    return name_of(bias) if bias is not None and is_read_once(bias) else None


def layer_of(node: ir.Node) -> LinearLayer | None:
    """Returns a node of the standard whose second input is a constant as a layer, or None if it is of another shape."""
    shape = shape_of(tensor_of(node.inputs[1]))
    third = node.inputs[2] if len(node.inputs) > 2 else None
    bias = name_of(third) if third is not None and is_constant(third) and is_read_once(third) else None
    named = name_of(node), node.op_type, name_of(node.inputs[0]), name_of(node.inputs[1]), bias, shape
    if node.op_type in ("Conv", "ConvTranspose"):
        window = _window(node, shape[2:])
        return None if window is None else LinearLayer(*named, node.attributes.get_int("group", 1), window=window)
    if node.op_type == "MatMul" and len(shape) == 2:
        return LinearLayer(*named, by_column=True)
    if node.op_type == "Gemm" and _is_plain(node):
        return LinearLayer(*named, by_column=not node.attributes.get_int("transB", 0))
    return None


def _is_plain(node: ir.Node) -> bool:
    factors = [node.attributes.get_float(name, 1.0) for name in ("alpha", "beta")]
    return factors == [1.0, 1.0] and not node.attributes.get_int("transA", 0)


def _window(node: ir.Node, kernel: tuple[int, ...]) -> Window | None:
    ones, transposed = (1,) * len(kernel), node.op_type == "ConvTranspose"
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID") or "output_shape" in node.attributes:
        return None
    read = {name: tuple(node.attributes.get_ints(name, ones)) for name in ("strides", "dilations")}
    zeros = (0,) * (2 * len(kernel))
    pads = zeros if mode == "VALID" else tuple(node.attributes.get_ints("pads", zeros))
    added = tuple(node.attributes.get_ints("output_padding", (0,) * len(kernel)))
    return Window(kernel, read["strides"], read["dilations"], pads, added, transposed)


def _product(sizes: tuple[int, ...]) -> int:
    return int(np.prod(sizes, dtype=np.int64))
