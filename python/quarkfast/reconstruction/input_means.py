"""Inputs of a layer on samples: the mean of what each weight multiplies, and rows of it from some places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import _core, ort
from quarkfast.reconstruction.linear_layer import LinearLayer, Window

__all__ = ["InputMeans", "count_rows", "mean_row", "places_of", "rows_at", "spread_places"]

# From this operator set on, axes of ReduceMean are an input.
_AXES_ARE_AN_INPUT = 18


class InputMeans:
    """One session on a model that takes the mean over positions of what each row of a weight multiplies.

    The graph itself takes means of channels; a convolution's patches have those, and zeros where they reach beyond the
    input. That is exact for the middle of an input, and a good estimate at its borders.
    """

    def __init__(self, model: onnx.ModelProto, folder: Path | None, layers: Sequence[LinearLayer]) -> None:
        """Opens the session.

        Args:
            model: The float model; nodes and outputs are added to it.
            folder: Where the files are that it refers to, or None.
            layers: Layers of the model.

        Raises:
            ModelError: ONNX Runtime does not take the model.
        """
        self._layers, self._own = layers, len(model.graph.output)
        _add_means(model, {_mean(layer): layer for layer in layers})
        self._names = [value.name for value in model.graph.output]
        self._session = ort.inference_session(model.SerializeToString(), ort.lean_options(), folder=folder)

    def run(
        self, feeds: Iterable[Mapping[str, NDArray[Any]]]
    ) -> tuple[dict[str, NDArray[np.float64]], list[list[Any]]]:
        """Returns the means on each sample, and the model's outputs.

        Args:
            feeds: Samples: arrays by the names of the model's inputs.

        Returns:
            By the name of the node an array ``[samples, groups, inputs]``, as in `LinearLayer.matrix_shape`; and for
            each sample a list of the model's own outputs.

        Raises:
            ModelError: ONNX Runtime does not take a sample.
        """
        found: dict[str, list[NDArray[np.float64]]] = {layer.node: [] for layer in self._layers}
        outputs = []
        for feed in feeds:
            computed = ort.run(self._session, feed)
            # Results keep a session's memory, copies do not.
            given = [np.array(each) if isinstance(each, np.ndarray) else each for each in computed]
            values: dict[str, Any] = dict(zip(self._names, given, strict=True))
            for layer in self._layers:
                found[layer.node].append(_rows(layer, values[_mean(layer)], values[_shape(layer)]))
            outputs.append(given[: self._own])
        shapes = {layer.node: (-1, layer.matrix_shape[0], layer.matrix_shape[2]) for layer in self._layers}
        return {node: np.array(rows).reshape(shapes[node]) for node, rows in found.items()}, outputs

    def close(self) -> None:
        """Ends the session, and gives its memory back."""
        self._session = None
        _core.release_memory()


def _mean(layer: LinearLayer) -> str:
    return f"{layer.data}, mean of {'rows' if layer.window is None else 'channels'}"


def _shape(layer: LinearLayer) -> str:
    return f"{_mean(layer)}, shape"


def _add_means(model: onnx.ModelProto, inputs: Mapping[str, LinearLayer]) -> None:
    """Makes means and shapes of tensors further outputs of a model."""
    opset = next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
    for mean, layer in inputs.items():
        if layer.window is None:
            shape = np.array([-1, layer.matrix_shape[2]], np.int64)
            model.graph.initializer.append(onnx.numpy_helper.from_array(shape, f"{mean}, row"))
            model.graph.node.append(onnx.helper.make_node("Reshape", [layer.data, f"{mean}, row"], [f"{mean}, all"]))
            _reduce(model.graph, f"{mean}, all", mean, [0], opset)
        else:
            _reduce(model.graph, layer.data, mean, [0, *range(2, 2 + len(layer.window.kernel))], opset)
        model.graph.node.append(onnx.helper.make_node("Shape", [layer.data], [_shape(layer)]))
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in (mean, _shape(layer)))


def _reduce(graph: onnx.GraphProto, tensor: str, result: str, axes: list[int], opset: int) -> None:
    if opset < _AXES_ARE_AN_INPUT:
        graph.node.append(onnx.helper.make_node("ReduceMean", [tensor], [result], axes=axes, keepdims=0))
        return
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(axes, np.int64), f"{result}, axes"))
    graph.node.append(onnx.helper.make_node("ReduceMean", [tensor, f"{result}, axes"], [result], keepdims=0))


def _rows(layer: LinearLayer, mean: NDArray[Any], shape: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns the mean of the rows that a layer multiplies, of the means of its channels: ``[groups, inputs]``."""
    groups, _, inputs = layer.matrix_shape
    channels = np.asarray(mean, np.float64)
    if layer.window is None:
        return channels.reshape(groups, inputs)
    shares = _shares(layer.window, tuple(shape[2:].tolist()))
    return (channels.reshape(groups, -1, 1) * shares).reshape(groups, inputs)


def mean_row(layer: LinearLayer, values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns the mean of the rows that a layer multiplies, as `InputMeans.run` does for each sample.

    Args:
        layer: The layer.
        values: Its input.

    Returns:
        ``[groups, inputs]``, as in `LinearLayer.matrix_shape`.
    """
    if layer.window is None:
        rows = values.reshape(-1, layer.matrix_shape[2])
        return _rows(layer, rows.mean(axis=0, dtype=np.float64), np.array(rows.shape))
    flat = values.reshape(*values.shape[:2], -1)
    return _rows(layer, flat.mean(axis=(0, 2), dtype=np.float64), np.array(values.shape))


@lru_cache(maxsize=256)
def _shares(window: Window, sizes: tuple[int, ...]) -> NDArray[np.float64]:
    """Returns, for each place of a kernel, for how much of the outputs it lies within the input."""
    shares = np.ones(1)
    for axis, size in enumerate(sizes):
        outputs = np.arange(window.output_size(axis, size))
        _, known = window.sources(axis, outputs, size)
        shares = np.multiply.outer(shares, known.mean(axis=0)).reshape(-1)
    return shares


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
