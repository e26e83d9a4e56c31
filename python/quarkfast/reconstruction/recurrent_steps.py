"""Steps of recurrent layers: what their weights multiply, the input and the state of the step before."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir

__all__ = ["FIRST_STATE", "LENGTHS", "Steps", "states_before", "steps_of", "without_padding"]

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
