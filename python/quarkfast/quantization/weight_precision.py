"""Weight precision: weights that one scale of 8 bits cannot carry, and the form that each gets (mixed precision)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from quarkfast.config import POLICY, Policy, Scheme, TensorSpec
from quarkfast.config.rules import Change, TensorRule
from quarkfast.deferred import ir
from quarkfast.formats import find
from quarkfast.graph.access import array_of, name_of, rank_of
from quarkfast.graph.operators import GATE_AXIS, RECURRENT_WEIGHTS, find_operator, is_recurrent
from quarkfast.graph.placement import ConstantSlot, Placement
from quarkfast.quantization.codes import codes_of, decode
from quarkfast.quantization.compute_qparams import constant_quantizer
from quarkfast.ranges.decibels import ratio_of

__all__ = [
    "USUAL",
    "Choice",
    "Effort",
    "Form",
    "Noise",
    "Weight",
    "WeightCandidate",
    "choose_forms",
    "expected_noise",
    "forms_of",
    "has_eight_bits",
    "weights_of",
]

Noise = Callable[[Mapping[str, NDArray[np.float32]]], float]
"""From other values of some weights to the noise of the outputs, as a part of their power."""

_WIDE = "int16"


class WeightCandidate(Protocol):
    """A weight whose form may be chosen."""

    @property
    def name(self) -> str:
        """Name of the initializer."""

    @property
    def axis(self) -> int:
        """The axis of its output channels."""

    @property
    def values(self) -> NDArray[np.float32]:
        """Its values."""

    @property
    def companions(self) -> Mapping[str, NDArray[np.float32]]:
        """Other constants that change along with it, as they are in the float model, by name."""

    def rounded(self, change: Change | None) -> NDArray[np.float32]:
        """Returns the values as the codes of the form that `change` makes of its own stand for them."""

    def companions_with(self, change: Change | None) -> Mapping[str, NDArray[np.float32]]:
        """Returns what these are beside those codes."""


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """A weight that is read with scales for activations.

    Attributes:
        slot: Where it is read, in the form that the scheme gives it.
        axis: The axis of its output channels.
        values: Its values.
    """

    slot: ConstantSlot
    axis: int
    values: NDArray[np.float32]

    @property
    def name(self) -> str:
        """Name of the initializer."""
        return self.slot.tensor

    def rounded(self, change: Change | None) -> NDArray[np.float32]:
        """Returns the values as the codes of the form that `change` makes of its own stand for them; float32 as is."""
        spec = self.slot.spec if change is None else change.apply(self.slot.spec)
        if spec.dtype == "float32":
            return self.values
        axis = self.axis if spec.granularity == "channel" else None
        quantizer = constant_quantizer(self.slot._replace(spec=spec, axis=axis), self.values, None)
        return decode(codes_of(self.values, quantizer), quantizer)

    @property
    def companions(self) -> Mapping[str, NDArray[np.float32]]:
        """None: biases are corrected once forms are known."""
        return {}

    def companions_with(self, change: Change | None) -> Mapping[str, NDArray[np.float32]]:
        """Returns none."""
        return {}


class Effort(NamedTuple):
    """How far weights are improved.

    Attributes:
        most: The noise that weights alone may add to the outputs, as a part of their power; None for what is enough
            where nobody asks for more.
        gain: What a form that costs bytes must leave at most, as a part of the noise before: half of it.
        splits: At most so many halvings of a set of weights, with two runs of the samples each.
        logits: Whether logits count as outputs do.
        of_worst: Whether the noise is that of the worst sample, and not of all together.
        largest_share: At most this part of the bytes of weights gets a form of more than 8 bits.
        policy: What is enough, and what a form that costs no bytes must bring.
    """

    most: float | None = None
    gain: float = POLICY.form_noise
    splits: int = POLICY.form_halvings
    logits: bool = False
    of_worst: bool = False
    largest_share: float = POLICY.wide_share
    policy: Policy = POLICY

    @classmethod
    def of(cls, policy: Policy) -> Effort:
        """Returns as far as a quantization with a policy goes where nobody asks for more."""
        return cls(gain=policy.form_noise, splits=policy.form_halvings, largest_share=policy.wide_share, policy=policy)

    def up_to(self, most: float) -> Effort:
        """Returns the same with `most` where nobody asks for more."""
        return self._replace(most=most) if self.most is None else self


USUAL = Effort()
"""As far as every quantization goes."""


class Form(NamedTuple):
    """A form that weights may get instead of the scheme's own.

    Attributes:
        name: What weights of that form have, in words.
        change: What is different in their spec.
        is_free: Whether it costs next to no bytes, so that all weights may have it.
    """

    name: str
    change: Change
    is_free: bool

    @property
    def is_wide(self) -> bool:
        """Whether weights of it have more than 8 bits, which few may have."""
        dtype = dict(self.change.values).get("dtype")
        return dtype is not None and find(dtype).bits > 8

    def is_of(self, change: Change) -> bool:
        """Whether a weight with that change has the form."""
        return set(self.change.values) <= set(change.values)


@dataclass(frozen=True, slots=True)
class Choice:
    """The forms of weights, and what they were chosen by.

    Attributes:
        names: Name of a form -> the weights that have it; one may have two forms.
        shares: Name of a form -> their part of the bytes of weights, as float32.
        rules: What makes them so, for a scheme.
        before: Noise of the outputs, as a part of their power, with the scheme's own form of every weight.
        after: And with the forms chosen.
        most: The noise that they may add.
        samples: How many samples showed that.
    """

    names: Mapping[str, tuple[str, ...]]
    shares: Mapping[str, float]
    rules: tuple[TensorRule, ...]
    before: float
    after: float
    most: float
    samples: int = 1

    @property
    def is_wanted(self) -> bool:
        """Whether the scheme's own form takes too much."""
        return self.before > self.most


def has_eight_bits(spec: TensorSpec) -> bool:
    """Whether tensors of `spec` are integers of 8 bits, with one scale or one for each channel."""
    return spec.format.is_integer and spec.format.bits == 8 and spec.granularity in ("tensor", "channel")


def weights_of(model: ir.Model, placement: Placement, scheme: Scheme) -> list[Weight]:
    """Returns the weights of layers that have the scheme's own form, those that lose most by it first.

    A weight that layers read in two ways, and one with a form, a range or a scale of the user's own, keeps it.
    """
    nodes, slots = {name_of(node): node for node in model.graph}, dict[str, list[ConstantSlot]]()
    for slot in placement.constants:
        slots.setdefault(slot.tensor, []).append(slot)
    own = {rule.tensor for rule in scheme.tensors}
    found = []
    for slot, *others in slots.values():
        if slot.role != "weight" or others or slot.tensor in own or slot.spec != scheme.weight:
            continue
        axes = {_channel_axis(nodes[edge.node], edge.index) for edge in slot.edges}
        axis = axes.pop() if len(axes) == 1 else None
        values = None if axis is None else array_of(model.graph.initializers[slot.tensor])
        if axis is not None and values is not None and values.size:
            found.append(Weight(slot, axis, values))
    return sorted(found, key=lambda weight: expected_noise(weight.values), reverse=True)


def _channel_axis(node: ir.Node, index: int) -> int | None:
    operator, rank = find_operator(node), rank_of(node.inputs[index])
    if is_recurrent(node) and index in RECURRENT_WEIGHTS:
        return GATE_AXIS
    return None if operator is None or operator.weight != index or rank < 2 else operator.channel_axis(node, rank)


def expected_noise(weight: NDArray[np.float32]) -> float:
    """Returns the square of the largest magnitude, which a step is in proportion to, as a part of the mean square."""
    energy = float(np.square(weight, dtype=np.float64).mean())
    return float(np.abs(weight).max()) ** 2 / energy if energy else 0.0


def forms_of(spec: TensorSpec) -> tuple[Form, ...]:
    """Returns what weights of `spec` may get instead, the cheapest first, whatever a target takes."""
    channel = Change.of({"granularity": "channel", "method": spec.per_channel().method}, "weights")
    wide = Form("16 bits", Change.of({"dtype": _WIDE}, "weights"), is_free=False)
    return (wide,) if spec.granularity == "channel" else (Form("a scale for each channel", channel, is_free=True), wide)


def choose_forms(
    weights: Sequence[WeightCandidate], noise: Noise, forms: Sequence[Form], effort: Effort = USUAL
) -> Choice:
    """Returns the forms of weights under which these take little from the outputs on a few samples.

    1. Weights alone are rounded in the scheme's own form. Where that leaves the outputs 25 dB, they keep it. (What is
       said of 25 dB, of half of the noise and of a quarter is so by default, see `Effort`.)
    2. Otherwise those that gain a decibel by it get a scale for each channel, if the outputs gain a decibel too.
    3. Where that is not enough, those that make most noise get 16 bits, as many as bring the outputs to 25 dB, but no
       more than a quarter of the bytes of weights, and only if it halves the noise. Of fewer bits than 8, those have 8
       first that make most, however many they are.
    4. Which make most noise is found by halving the set that makes most by itself, over and over.

    Args:
        weights: Those of :func:`weights_of`, or others.
        noise: Runs the float model with some weights rounded.
        forms: What the target takes, of :func:`forms_of`.
        effort: How far they are improved.
    """
    search = _FormSearch(weights, noise, effort)
    before = search.noise
    for form in forms:
        search.use(form)
    found = {form.name: search.weights_of(form) for form in forms}
    names = {form: tuple(weight.name for weight in each) for form, each in found.items() if each}
    shares = {form: _bytes_of(found[form]) / _bytes_of(weights) for form in names}
    rules = tuple(TensorRule(name, change) for name, change in search.changes.items())
    return Choice(names, shares, rules, before, search.noise, search.most)


def _bytes_of(weights: Iterable[WeightCandidate]) -> int:
    return sum(weight.values.nbytes for weight in weights)


class _FormSearch:
    """Weights and the changes that they have so far.

    Attributes:
        changes: What is changed in the spec of each weight.
        noise: Noise of the outputs with all weights rounded so.
        most: The noise that they may add.
    """

    def __init__(self, weights: Sequence[WeightCandidate], noise: Noise, effort: Effort) -> None:
        self._weights, self._effort = tuple(weights), effort
        self.most = ratio_of(-effort.policy.alone_sqnr) if effort.most is None else effort.most
        self._run, self._least = noise, ratio_of(effort.policy.form_gain)
        self._last: dict[str, tuple[Change | None, NDArray[np.float32]]] = {}
        self.changes: dict[str, Change] = {}
        self.noise = self._noise_of(self._weights, {})

    def weights_of(self, form: Form) -> tuple[WeightCandidate, ...]:
        """Returns the weights that have a form, and no wider one in its place."""
        return tuple(
            each for each in self._weights if each.name in self.changes and form.is_of(self.changes[each.name])
        )

    def use(self, form: Form) -> None:
        """Gives weights a form where it is needed and pays."""
        if self.noise <= self.most:
            return
        wanted = self.noise * (max(self._effort.gain, 1 / self._least) if form.is_free else self._effort.gain)
        # Before the weights of another form take the place of these in memory.
        errors = {each.name: self._error(each, self.changes) for each in self._weights} if form.is_free else {}
        everywhere = self._with(form.change, self._weights)
        least = self._noise_of(self._weights, everywhere)
        if least > wanted:
            return
        if form.is_free:
            gain = [each for each in self._weights if errors[each.name] > self._least * self._error(each, everywhere)]
            chosen = frozenset(gain)
        else:
            most, share = max(self.most - least, 0.0), self._effort.largest_share if form.is_wide else 1.0
            chosen = _chosen(self._split(most), most, share * _bytes_of(self._weights))
        changes = self._with(form.change, chosen)
        noise = least if changes == everywhere else self._noise_of(self._weights, changes)
        if noise <= wanted:
            self.changes, self.noise = changes, noise

    def _with(self, change: Change, weights: Iterable[WeightCandidate]) -> dict[str, Change]:
        made = {name: dict(each.values) for name, each in self.changes.items()}
        for weight in weights:
            made[weight.name] = made.get(weight.name, {}) | dict(change.values)
        return {name: Change.of(values, "weights") for name, values in made.items()}

    def _error(self, weight: WeightCandidate, changes: Mapping[str, Change]) -> float:
        """Returns the error of a weight itself, each output channel as a part of its own power."""
        return _error(weight, self._rounded(weight, changes.get(weight.name)))

    def _noise_of(self, weights: Sequence[WeightCandidate], changes: Mapping[str, Change]) -> float:
        constants = {each.name: self._rounded(each, changes.get(each.name)) for each in weights}
        for each in weights:
            constants |= each.companions_with(changes.get(each.name))
        return self._run(constants)

    def _rounded(self, weight: WeightCandidate, change: Change | None) -> NDArray[np.float32]:
        """Returns a weight in a form; the last form of each stays in memory."""
        last = self._last.pop(weight.name, None)
        if last is None or last[0] != change:
            del last
            last = change, weight.rounded(change)
        self._last[weight.name] = last
        return last[1]

    def _split(self, most: float) -> list[_WeightGroup]:
        """Returns all weights in groups with the noise of each by itself: those that make more than `most` are small.

        The noise of independent roundings adds up, but where a Softmax or a Sigmoid saturates.
        """
        groups = [_WeightGroup(self.noise, self._weights)]
        for _ in range(self._effort.splits):
            several = [each for each in groups if len(each.weights) > 1]
            if sum(each.noise for each in several) <= most or not several:
                break
            worst = max(several, key=lambda each: each.noise)
            half = len(worst.weights) // 2
            parts = worst.weights[:half], worst.weights[half:]
            groups.remove(worst)
            groups += [_WeightGroup(self._noise_of(part, self.changes), part) for part in parts]
        return groups


def _error(weight: WeightCandidate, rounded: NDArray[np.float32]) -> float:
    others = tuple(axis for axis in range(rounded.ndim) if axis != weight.axis)
    signal = np.square(weight.values, dtype=np.float64).sum(axis=others)
    noise = np.square(weight.values - rounded, dtype=np.float64).sum(axis=others)
    return float(np.divide(noise, signal, out=np.zeros_like(noise), where=signal > 0).sum())


class _WeightGroup(NamedTuple):
    noise: float
    weights: tuple[WeightCandidate, ...]


def _chosen(groups: Iterable[_WeightGroup], most: float, limit: float) -> frozenset[WeightCandidate]:
    """Returns the weights that make most noise for their bytes, until the others make `most`; `limit` is in bytes."""
    chosen, left, size = set[WeightCandidate](), sum(each.noise for each in groups), 0
    for group in sorted(groups, key=lambda each: each.noise / _bytes_of(each.weights), reverse=True):
        if left <= most:
            break
        if size + _bytes_of(group.weights) <= limit:
            chosen |= set(group.weights)
            left, size = left - group.noise, size + _bytes_of(group.weights)
    return frozenset(chosen)
