"""Chooses weights layer by layer, by Gram matrices of what each sees once those before it have their final weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quarkfast import _core
from quarkfast.config import POLICY, Policy
from quarkfast.graph.external import read_constant
from quarkfast.reconstruction.blas_threads import blas_threads_for
from quarkfast.reconstruction.gram import GramMatrices, fixed_point_step
from quarkfast.reconstruction.input_means import count_rows, places_of, rows_at
from quarkfast.reconstruction.linear_layer import LinearLayer
from quarkfast.reconstruction.stages import StagedModel
from quarkfast.reconstruction.walk import Feed, Models, go_through

__all__ = ["LayerStatistics", "reconstruct"]

# Rows to multiply at once: at least so many, and of few numbers so many bytes. Their copies in float64 take four times
# as much.
_CHUNK_ROWS, _CHUNK = 256, 128 << 10


class LayerStatistics(NamedTuple):
    """What one layer sees.

    Attributes:
        layer: The layer, or the first of those that share its weight.
        parts: Gram matrices of their input: of all samples, or of every second one and of the others, if halves were
            asked for. Who solves a layer may take them out to save memory.
    """

    layer: LinearLayer
    parts: list[GramMatrices]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(each.count for each in self.parts)

    def means(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the means of the input in the quantized model and in the float model, ``[groups, k]``."""
        shares = [each.count / max(self.rows, 1) for each in self.parts]
        mean, missing = (
            np.sum([share * value for share, value in zip(shares, values, strict=True)], axis=0)
            for values in zip(*((each.mean, each.missing_mean) for each in self.parts), strict=True)
        )
        return mean, mean + missing

    def take(self) -> GramMatrices:
        """Returns the matrices of all samples, and leaves none."""
        matrices = self.parts.pop(0)
        while self.parts:
            matrices.merge(self.parts.pop())
        return matrices


Solve = Callable[[LayerStatistics], Mapping[str, NDArray[np.float32]]]
"""From what a layer sees to new values of initializers of the quantized model: its weight, its bias, or none."""


def reconstruct(
    models: Models,
    layers: Sequence[LinearLayer],
    feeds: Sequence[Feed],
    solve: Solve,
    *,
    both: bool,
    halves: bool = False,
    report: Callable[[int], None] = lambda done: None,
    policy: Policy = POLICY,
) -> None:
    """Solves the weights of `layers` in the order of the graph, and puts what comes of it into the quantized model.

    Rows of a convolution's input are taken from places that are spread evenly over each sample,
    those of a product's input from tokens that are no padding.

    Args:
        models: The quantized one is changed in place.
        layers: What to solve.
        feeds: Samples; the same number of rows in each.
        solve: Called once for each weight.
        both: Whether to run the float model too, so that layers make up for the errors in front of them.
        halves: Whether to tell what every second sample shows, and what the others do, by itself.
        report: Called with the number of weights that are done.
        policy: How many rows are taken.

    Raises:
        ModelError: ONNX Runtime does not take a part of a model.
    """
    weights = {tensor.name: tensor for tensor in models.float_model.graph.initializer}

    def see(readers: Sequence[LinearLayer], paths: Sequence[StagedModel]) -> Mapping[str, NDArray[np.float32]]:
        own = read_constant(weights[readers[0].weight], models.float_folder)
        with blas_threads_for(readers[0].matrix_shape[2]):
            return solve(_statistics(readers, own, paths, feeds, halves, policy))

    go_through(models, layers, feeds, see, both=both, report=report)


def _statistics(
    readers: Sequence[LinearLayer],
    weights: NDArray[np.float32],
    paths: Sequence[StagedModel],
    feeds: Sequence[Feed],
    halves: bool,
    policy: Policy,
) -> LayerStatistics:
    layer, samples = readers[0], range(len(feeds))
    inputs = ([path.input_of(each, sample) for path in paths] for each in readers for sample in samples)
    largest = np.max([[_largest(each) for each in (own, *_missing(own, *floats))] for own, *floats in inputs], axis=0)
    steps = [fixed_point_step(float(each)) for each in largest]
    parts = [GramMatrices(layer.to_rows(weights), *steps)]
    if parts[0].is_large:
        _core.release_memory()  # of sessions and smaller layers
    for place in range(1 + halves):
        if place:
            parts.append(parts[0].without_rows())
        for rows in _rows(readers, paths, feeds, samples[place :: 1 + halves], policy):
            parts[place].add(*rows)
            del rows
        parts[place].set_aside()
        if parts[0].is_large:
            _core.release_memory()  # of the rows, before solvers copy matrices
    return LayerStatistics(layer, parts)


def _missing(own: NDArray[np.float32], *floats: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    """Yields what an input of the quantized model lacks to that of the float model, if there is one."""
    for each in floats:
        yield each - own


def _rows(
    readers: Sequence[LinearLayer],
    paths: Sequence[StagedModel],
    feeds: Sequence[Feed],
    part: Sequence[int],
    policy: Policy,
) -> Iterator[list[NDArray[np.float32]]]:
    """Yields rows of the quantized model and what they lack to those of the float model, if that is run, in chunks.

    One product of many rows takes a tenth of the time of products of few.

    Of each sample in `part` there are as many as if all samples were wanted. Of layers with one weight each has as many
    as it has of all places.
    """
    inputs = readers[0].matrix_shape[2]
    rows = max(policy.rounding_rows_taken * inputs, policy.rounding_least_rows)
    wanted = -(-min(rows, policy.rounding_most_rows) // len(feeds))
    chunk: list[list[NDArray[np.float32]]] = []
    for sample in part:
        counts = [count_rows(each, paths[0].input_of(each, sample)) for each in readers]
        for layer, count in zip(readers, counts, strict=True):
            own, *floats = (path.input_of(layer, sample) for path in paths)
            of_it = -(-wanted * count // max(sum(counts), 1))
            places = places_of(layer, own, feeds[sample], of_it, sample * of_it)
            chunk.append(rows_at(layer, [own, *_missing(own, *floats)], places))
        rows = sum(each[0].size for each in chunk) // inputs
        if sample == part[-1] or (rows >= _CHUNK_ROWS and rows * inputs * own.itemsize >= _CHUNK):
            if len(chunk) > 1:
                chunk = [[np.concatenate(each, axis=1) for each in zip(*chunk, strict=True)]]
            yield chunk.pop()  # which nothing here holds while it is added, nor while the next is taken


def _largest(x: NDArray[np.float32]) -> float:
    return float(np.abs(x).max(initial=0.0))
