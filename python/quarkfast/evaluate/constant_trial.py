"""What other values of a model's constants do to its outputs, on a few samples."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import _core, ort
from quarkfast.config import POLICY, Policy
from quarkfast.evaluate.common_shape import is_float_array
from quarkfast.evaluate.noise import Gains, OutputNoise, SignalAndNoise, powers_of
from quarkfast.evaluate.output_parts import judge_parts
from quarkfast.evaluate.partial_model import Feed
from quarkfast.evaluate.ranked_outputs import judge_unranked
from quarkfast.graph.operators import DRAWERS

__all__ = ["ConstantTrial", "Constants", "decibels"]


Constants = Mapping[str, NDArray[Any]]


class ConstantTrial:
    """One session on a model, whose constants are inputs, so that each run may have others.

    Boxes and scores that are joined to one output count as two (`quarkfast.evaluate.output_parts`), and what a ranking
    reads counts in place of its results (`quarkfast.evaluate.ranked_outputs`).

    Attributes:
        is_steady: Whether the model gives the same outputs for the same inputs, and some that are float and not zero.
        numbers: How many numbers outputs of floats have on the first sample.
    """

    def __init__(
        self, model: onnx.ModelProto, folder: Path | None, constants: Constants, feeds: Sequence[Feed]
    ) -> None:
        """Opens the session, and runs it on the first sample with the constants as they are.

        Once more where it may give other outputs then: if nodes draw, hold bodies, or are not of the standard.

        Args:
            model: A float model; constants that are to change become inputs of it, unless they are
                (`quarkfast.graph.external_constants.with_constants_as_inputs` takes less memory).
            folder: Where the files are that the model refers to, or None.
            constants: The constants that are to change, by name.
            feeds: The samples: arrays by the names of the model's inputs.

        Raises:
            ModelError: If ONNX Runtime does not take the model or a sample.
        """
        kept = [tensor for tensor in model.graph.initializer if tensor.name not in constants]
        if len(kept) < len(model.graph.initializer):
            del model.graph.initializer[:]
            model.graph.initializer.extend(kept)
        given = {value.name for value in model.graph.input}
        for name, values in constants.items():
            if name not in given:
                kind = onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
                model.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, values.shape))
        groups = judge_parts(judge_unranked(model))
        place = {output.name: index for index, output in enumerate(model.graph.output)}
        self._groups = [[place[name] for name in group] for group in groups]
        options = ort.lean_options(optimize=False)
        self._session = ort.inference_session(model.SerializeToString(), options, folder=folder)
        _core.release_memory()  # of what the session was read from
        self._feeds = [{**feed, **constants} for feed in feeds]
        first = self._outputs(0)
        self._expected = [first]
        judged = self._judged(first)
        self.numbers = sum(first[index].size for group in judged for index in group)
        self.is_steady = bool(judged) and (not _may_draw(model) or not any(self._noise_on(0, {})[0]))

    def add_samples(self, feeds: Sequence[Feed]) -> None:
        """Takes more samples."""
        self._feeds += [{**self._feeds[0], **feed} for feed in feeds]

    def noise(self, constants: Constants, *, of_worst: bool = False) -> float:
        """Returns the noise of the outputs on all samples with other constants, as a part of their power.

        It is that of the worst output. Those that are no floats, hold something infinite or nothing but zero do not
        count. What is expected of outputs stays in memory.

        Args:
            constants: By name.
            of_worst: Whether it is that of the worst sample, beside its own power.
        """
        while len(self._expected) < len(self._feeds):
            self._expected.append(self._outputs(len(self._expected)))
        sums: dict[tuple[int, ...], list[list[SignalAndNoise]]] = {}
        for sample, (feed, expected) in enumerate(zip(self._feeds, self._expected, strict=True)):
            found = ort.run(self._session, {**feed, **constants})
            for group in self._judged(expected):
                sums.setdefault((sample * of_worst, *group), []).append([_powers(expected, found, group)])
        return max(float(OutputNoise.of(each).by_part().max(initial=0.0)) for each in sums.values())

    def compare(self, one: Constants, other: Constants, policy: Policy = POLICY) -> tuple[float, float]:
        """Returns the noise with either of two kinds of constants, on as many samples as tell which is the better.

        It is the geometric mean over samples, and over outputs that have noise: each shows the same in another place.
        """
        pairs: list[tuple[float, float]] = []
        for sample in range(len(self._feeds)):
            noises = self._noise_on(sample, one, other)
            pairs += [(_geometric_mean(noises[0]), _geometric_mean(noises[1]))] if noises[0] else []
            if _is_decided(pairs, policy):
                break
        return _geometric_mean([pair[0] for pair in pairs]), _geometric_mean([pair[1] for pair in pairs])

    def _noise_on(self, sample: int, *kinds: Constants) -> list[list[float]]:
        """Returns the noise of each group of outputs that can be judged, with each kind of constants."""
        expected = self._outputs(sample) if sample else self._expected[0]
        judged = self._judged(expected)
        runs = (ort.run(self._session, {**self._feeds[sample], **constants}) for constants in kinds)
        powers = ([_powers(expected, found, group) for group in judged] for found in runs)
        return [[each.noise / each.signal for each in groups] for groups in powers]

    def _judged(self, outputs: Sequence[object]) -> list[list[int]]:
        """Returns the groups that hold floats, all of them finite and some not zero."""
        return [group for group in self._groups if _is_judged([outputs[index] for index in group])]

    def _outputs(self, sample: int) -> list[Any]:
        """Returns the outputs with the constants as they are; results keep a session's memory, copies do not."""
        found = ort.run(self._session, self._feeds[sample])
        return [np.array(each) if is_float_array(each) else None for each in found]

    def close(self) -> None:
        """Ends the session, and gives its memory back."""
        self._session = None
        _core.release_memory()


def _may_draw(model: onnx.ModelProto) -> bool:
    """Whether a model may give other outputs each time, as far as its nodes tell."""
    return any(
        node.domain not in ("", "ai.onnx")
        or node.op_type in DRAWERS
        or any(each.HasField("g") for each in node.attribute)
        for node in model.graph.node
    )


def _is_judged(outputs: Sequence[Any]) -> bool:
    are_finite = all(is_float_array(each) and bool(np.isfinite(each).all()) for each in outputs)
    return are_finite and any(np.any(each) for each in outputs)


def _powers(expected: Sequence[Any], found: Sequence[Any], group: Sequence[int]) -> SignalAndNoise:
    """Returns the power of what is expected of a group of outputs, and of its noise."""
    each = [powers_of(expected[index], found[index]) for index in group]
    return SignalAndNoise(sum(one.signal for one in each), sum(one.noise for one in each))


def _geometric_mean(noises: Sequence[float]) -> float:
    """Returns the mean of those that are not zero, or zero."""
    logarithms = [math.log(noise) for noise in noises if noise]
    return math.exp(statistics.fmean(logarithms)) if logarithms else 0.0


def _is_decided(pairs: Sequence[tuple[float, float]], policy: Policy) -> bool:
    """Whether samples tell which of two is the better."""
    if len(pairs) < policy.trial_least_samples or not all(map(all, pairs)):
        return False
    gains = Gains.of_noise(*np.array(pairs).T)
    return gains.better(errors=policy.trial_certainty) or gains.worse(errors=policy.trial_certainty)


def decibels(noise: float) -> str:
    """Returns a part of a signal's power in words: how far it lies below the signal.

    Example:
        >>> decibels(0.001), decibels(1.0)
        ('30.0 dB', '0.0 dB')
    """
    return f"{round(-10 * math.log10(noise), 1) + 0.0 if noise else math.inf:.1f} dB"
