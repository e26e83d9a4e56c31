"""Hadamard rotation (QuaRot): residual streams in another basis, in which no channel stands out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.algorithm import Algorithm, AlgorithmContext, Settings
from quarkfast.algorithms.hadamard import hadamard_rotation, mean_keeping_rotation
from quarkfast.algorithms.residual_streams import ResidualStream, find_streams
from quarkfast.config import POLICY, Policy, Scheme
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of
from quarkfast.graph.notes import add_note
from quarkfast.ranges.decibels import ratio_of

__all__ = ["HADAMARD_ROTATION", "HadamardRotationSettings", "rotate_streams"]

Values = NDArray[np.float64]

_DONE = "quarkfast.rotated"


@dataclass(frozen=True, slots=True)
class HadamardRotationSettings:
    """Settings of :func:`rotate_streams`.

    Attributes:
        random_signs: Whether channels get signs first, the same ones at each run.
        policy: What a stream has to gain.
    """

    random_signs: bool = False
    policy: Policy = POLICY


def rotate_streams(model: ir.Model, settings: HadamardRotationSettings) -> int:
    """Turns the residual streams of a model, in place; returns how many.

    With ``H`` orthogonal, ``x H`` takes the place of each tensor ``x`` of a stream
    (`quarkfast.algorithms.residual_streams`): what writes it becomes ``W H``, what reads it ``H^T W``, a bias ``b H``.
    Gains of normalizations have moved into the weights that read them before. Each constant is rounded to float32 once.
    A stream stays as it is unless rounding it and the weights that read it to one step each costs a decibel less, by
    what its weights tell (:func:`_expected_noise`). Where a layer normalization subtracts a mean, ``H`` turns the
    vector of ones into itself; its offset becomes ``(b / g) H``, with the gain ``g`` that has moved on.

    Idempotent: a model that was turned says so. Graph inputs and outputs are kept. Error: the rounding of constants.
    What is left as it is has a note.

    Source:
        S. Ashkboos et al., "QuaRot: Outlier-Free 4-Bit Inference in Rotated LLMs", 2024, section 4.1 (its matrix
        ``Q``, R1 of others).
    """
    if model.meta.get(_DONE):
        return 0
    model.meta[_DONE] = True
    turned = 0
    for stream in find_streams(model.graph):
        if not isinstance(stream, ResidualStream):
            add_note(model, f"Hadamard rotation left a residual stream as it is: {stream}")
        elif _rotate(stream, settings):
            turned += 1
        else:
            add_note(model, "Hadamard rotation left a residual stream as it is: no channel stands out, by its weights")
    found = f"{turned} residual streams turned" if turned else "no residual stream was turned"
    add_note(model, f"Hadamard rotation: {found}")
    return turned


def _rotate(stream: ResidualStream, settings: HadamardRotationSettings) -> bool:
    """Turns a stream, if that is expected to pay."""
    (size,) = stream.sizes
    make = mean_keeping_rotation if stream.keeps_mean else hadamard_rotation
    rotation = make(size, random_signs=settings.random_signs)
    old = {value: array_of(value).astype(np.float64) for value in _constants(stream)}
    new = dict(old)
    for gain, weights in stream.gains:
        for weight in weights:
            new[weight] = new[weight] * new[gain][:, None]
        new[gain] = np.ones(size)
    for offset, gain in stream.offsets:
        new[offset] = (old[offset] / old[gain]) @ rotation
    for value in stream.readers:
        new[value] = rotation.T @ new[value]
    for value in (*stream.writers, *stream.biases):
        new[value] = new[value] @ rotation
    least = ratio_of(settings.policy.rotation_gain)
    if not least * _expected_noise(stream, new) < _expected_noise(stream, old):
        return False
    for value, array in new.items():
        value.const_value = ir.Tensor(_singles(array), name=value.name)
    return True


def _expected_noise(stream: ResidualStream, arrays: Mapping[ir.Value, Values]) -> float:
    """Returns what one step for a stream and one for each weight that reads it cost, up to a factor, without samples.

    Of each product both operands are off by a step whose square is in proportion to the largest square of the operand;
    their mean squares are what that is measured by. Of the stream these are estimated by the energy that its writers
    have for each channel, times the gain of the normalization in front of the product.
    """
    energy = sum((arrays[value] ** 2).sum(axis=0) for value in stream.writers)
    gains = {weight: arrays[gain] for gain, weights in stream.gains for weight in weights}
    total = 0.0
    for weight in stream.readers:
        channels, squares = energy * gains.get(weight, 1.0) ** 2, arrays[weight] ** 2
        total += sum(float(each.max() / each.mean()) for each in (channels, squares) if each.any())
    return total


def _constants(stream: ResidualStream) -> list[ir.Value]:
    vectors = (value for value, _ in (*stream.gains, *stream.offsets))
    return [*stream.readers, *stream.writers, *stream.biases, *vectors]


def _singles(array: Values) -> NDArray[np.float32]:
    return np.ascontiguousarray(array).astype(np.float32)


def _settings(scheme: Scheme) -> Settings | None:
    return None if scheme.rotation == "none" else HadamardRotationSettings(scheme.rotation == "random", scheme.policy)


def _run(context: AlgorithmContext, settings: HadamardRotationSettings) -> bool:
    return rotate_streams(context.model, settings) > 0


HADAMARD_ROTATION = Algorithm("Hadamard rotation", "float weights", _settings, _run, stage="prepare")
