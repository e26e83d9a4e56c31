"""Input rows: rows of what a layer multiplies, taken from some places of its input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.reconstruction.linear_layer import LinearLayer, Window

__all__ = ["count_rows", "places_of", "rows_at", "spread_places"]

# 2^32 over the golden ratio: the places i * this mod 2^32 fill an interval evenly, whatever their number.
# Source: D. Knuth, "The Art of Computer Programming", volume 3, section 6.4, multiplicative hashing.
_GOLDEN = 2654435769


# The input by which models of text tell tokens (1) from padding (0), ``[n, tokens]``.
_MASK = "attention_mask"


def places_of(
    layer: LinearLayer, x: NDArray[np.float32], feed: Mapping[str, NDArray[Any]], wanted: int, first: int = 0
) -> NDArray[np.int64]:
    """Returns `wanted` places of rows of an input (:func:`spread_places`), none of which is padding.

    Nobody reads what a model makes of padding, but it can be most of what short texts show. Rows are known as padding
    by an input ``attention_mask`` of zeros and ones, where the layer's input has a row for each of its numbers.

    Example:
        >>> layer = LinearLayer("n", "MatMul", "x", "w", None, (8, 2), 1)
        >>> x, mask = np.zeros((1, 4, 8), np.float32), np.array([[1, 1, 1, 0]])
        >>> places_of(layer, x, {"attention_mask": mask}, 5).tolist(), places_of(layer, x, {}, 5).tolist()
        ([0, 1, 2], [0, 1, 2, 3])
    """
    mask = feed.get(_MASK)
    if mask is None or layer.window or layer.steps or mask.shape != x.shape[:-1] or not np.isin(mask, (0, 1)).all():
        return spread_places(count_rows(layer, x), wanted, first)
    tokens = np.flatnonzero(mask)
    return tokens[spread_places(len(tokens), wanted, first)] if len(tokens) else np.arange(0)


def count_rows(layer: LinearLayer, x: NDArray[np.float32]) -> int:
    """Returns the number of rows in an input.

    It is ``[n, channels, ...]`` of a convolution, ``[..., k]`` of a product, ``[steps, n, k]`` of a recurrent layer and
    ``[steps, n, directions, k]`` of its state.
    """
    if layer.steps is not None:
        return int(x.shape[0] * x.shape[1])
    if layer.window is None:
        return int(x.size // x.shape[-1])
    sizes = [layer.window.output_size(axis, size) for axis, size in enumerate(x.shape[2:])]
    return int(np.prod([x.shape[0], *sizes], dtype=np.int64))


def spread_places(count: int, wanted: int, first: int = 0) -> NDArray[np.int64]:
    """Returns `wanted` places among `count`, spread evenly and without a period, or all of them.

    Args:
        count: Number of places.
        wanted: How many to take.
        first: Number of places that were taken of earlier samples: others are taken now.

    Example:
        >>> spread_places(100, 4).tolist(), spread_places(3, 8).tolist()
        ([0, 61, 23, 85], [0, 1, 2])
    """
    if wanted >= count:
        return np.arange(count)
    steps = (np.arange(first, first + wanted, dtype=np.uint64) * np.uint64(_GOLDEN)) & np.uint64(0xFFFFFFFF)
    return ((steps * np.uint64(count)) >> np.uint64(32)).astype(np.int64)


def rows_at(
    layer: LinearLayer, inputs: Sequence[NDArray[np.float32]], places: NDArray[np.int64]
) -> list[NDArray[np.float32]]:
    """Returns rows ``[groups, len(places), k]`` of inputs of one shape, in the order of the layer's weight."""
    groups, _, numbers = layer.matrix_shape
    if layer.steps is not None:  # all directions read the same input, and each a state of its own
        steps = (x.reshape(count_rows(layer, x), -1, numbers)[places].transpose(1, 0, 2) for x in inputs)
        return [np.broadcast_to(rows, (groups, *rows.shape[1:])) for rows in steps]
    if layer.window is None:
        return [x.reshape(-1, x.shape[-1])[places][None] for x in inputs]
    taken = (each.reshape(len(places), groups, numbers) for each in _patches(layer.window, inputs, places))
    return [np.ascontiguousarray(rows.transpose(1, 0, 2)) for rows in taken]


def _patches(
    window: Window, inputs: Sequence[NDArray[np.float32]], places: NDArray[np.int64]
) -> Iterator[NDArray[np.float32]]:
    """Yields ``[len(places), channels, kernel numbers]``; what lies outside of the input is zero."""
    count, channels, *sizes = inputs[0].shape
    outputs = [window.output_size(axis, size) for axis, size in enumerate(sizes)]
    flat, *spatial = (each[:, None] for each in np.unravel_index(places, (count, *outputs)))
    exists = np.ones((len(places), 1), np.bool_)
    for axis, (size, index) in enumerate(zip(sizes, spatial, strict=True)):
        found, inside = window.sources(axis, index[:, 0], size)
        flat = (flat[:, :, None] * size + np.clip(found, 0, size - 1)[:, None]).reshape(len(places), -1)
        exists = (exists[:, :, None] & inside[:, None]).reshape(len(places), -1)
    for x in inputs:
        # Channels last, so that what is taken at each place lies in one piece.
        values = x.reshape(count, channels, -1).transpose(0, 2, 1).reshape(-1, channels)[flat]
        values[~exists] = 0
        yield values.transpose(0, 2, 1)
