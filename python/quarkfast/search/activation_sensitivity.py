"""Sensitivity of activations: what their rounding takes from the outputs of a quantized model."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from itertools import count

from quarkfast.evaluate.pair_trial import PairTrial
from quarkfast.pipeline.wide_bytes import bits_of, stored_activations
from quarkfast.quantization import Records
from quarkfast.quantization.activation_precision import choose_activations, most_runs
from quarkfast.search.job import Made
from quarkfast.search.search import Search

__all__ = ["ActivationSensitivity"]


class ActivationSensitivity:
    """The activations of a quantized model that have a scale, with those that share it, and what they take.

    Tensors that others only move have one scale, one type and one place in the rank.
    """

    def __init__(self, search: Search, made: Made, largest_share: float, bits: int = 8) -> None:
        """Opens a session.

        Args:
            search: Its samples that calibrate decide.
            made: The quantized model.
            largest_share: At most this part of the bytes of activations may have more bits in the end.
            bits: The most that count as few.
        """
        records = made.summary.records or Records()
        policy = search.policy
        self._policy, self._samples = policy, search.calibration[: policy.activation_samples]
        self._trial = PairTrial(made.data, search.reference, self._samples)
        few = self._trial.outputs < policy.few_outputs
        self._ranked = policy.activation_samples if few else policy.activation_ranks
        stored = stored_activations(made.data, records, self._samples[0])
        members: dict[str, list[str]] = {}
        for name in self._trial.sizes:
            record = records.tensors.get(name)
            members.setdefault((record and record.root) or name, []).append(name)
        narrow = [name for name in members if name in search.tensors and bits_of(records, name) <= bits]
        self._members = {name: members[name] for name in narrow}
        self._sizes = {name: sum(stored.get(each, 0) for each in members[name]) for name in narrow}
        self._others = tuple(self._trial.sizes.keys() - {each for name in narrow for each in members[name]})
        self._total = max(sum(stored.values()), 1)
        wide = sum(size for name, size in stored.items() if bits_of(records, name) > bits)
        self._limit = max(largest_share * self._total - wide, 0.0)
        self._noise, self._own = cache(self._trial.noise), cache(self._own_noise)

    @property
    def runs(self) -> int:
        """How often a choice runs the model, at most."""
        return most_runs(len(self._sizes), self._policy)

    def choose(self, aim: float, report: Callable[[int], None]) -> tuple[tuple[str, ...], float]:
        """Returns the tensors without whose rounding the outputs have `aim` dB, and their part of all bytes.

        Args:
            aim: The ratio in dB.
            report: Is told how often noise has been asked for.
        """
        asked = count(1)

        def noise(rounded: Collection[str]) -> float:
            found = self._noise(frozenset({*self._tensors(rounded), *self._others}))
            report(next(asked))
            return found

        def own(rounded: Collection[str]) -> float:
            found = self._own(frozenset(self._tensors(rounded)))
            report(next(asked))
            return found

        names = choose_activations(self._sizes, own, noise, 10 ** (-aim / 10), self._limit, self._policy)
        return names, sum(self._sizes[name] for name in names) / self._total

    def close(self) -> None:
        """Ends the session until there is another choice to make."""
        self._trial.close()

    def _own_noise(self, rounded: frozenset[str]) -> float:
        return self._trial.own_noise(rounded, self._ranked)

    def _tensors(self, names: Collection[str]) -> list[str]:
        return [each for name in names for each in self._members[name]]
