"""Comparable outputs: arrays of floats, in one shape also where that depends on what they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["in_one_shape", "is_float_array"]


def is_float_array(output: object) -> bool:
    """Returns whether an output is one array of floats: sequences are lists, and what is optional may be None.

    Example:
        >>> import numpy as np
        >>> is_float_array(np.ones(2)), is_float_array([np.ones(2)]), is_float_array(np.array(["text"], object))
        (True, False, False)
    """
    return isinstance(output, np.ndarray) and output.dtype.kind == "f"


def in_one_shape(one: NDArray[Any], other: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns two arrays with zeros behind what either has less of, so that they can be compared.

    A decoder that stops a step early has lost all that the step would give, and one that goes on adds noise: a ratio is
    worse for it, and tells one model from another all the same. Arrays that differ in more than one dimension stay as
    they are: steps are one, and zeros for two may take any amount of memory.

    Example:
        >>> import numpy as np
        >>> in_one_shape(np.ones((1, 2)), np.ones((1, 3)))[0].tolist()
        [[1.0, 1.0, 0.0]]
    """
    if one.ndim != other.ndim or np.count_nonzero(np.not_equal(one.shape, other.shape)) != 1:
        return one, other
    wanted = np.maximum(one.shape, other.shape)
    first, second = (
        np.pad(each, [(0, most - own) for own, most in zip(each.shape, wanted, strict=True)]) for each in (one, other)
    )
    return first, second
