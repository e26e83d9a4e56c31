"""Input means: the mean of what each weight of a layer multiplies, on samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import _core, ort
from quarkfast.reconstruction.linear_layer import LinearLayer, Window

__all__ = ["InputMeans", "mean_row"]

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
