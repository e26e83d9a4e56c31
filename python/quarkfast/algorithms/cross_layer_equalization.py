"""Cross-layer equalization: channels between two layers are scaled so that the weights on both sides need few bits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from quarkfast.algorithms.algorithm import Algorithm, AlgorithmContext, Settings
from quarkfast.algorithms.layer_pairs import carry_factors
from quarkfast.algorithms.scaled_pairs import ScaledPair, channel_absmax, find_scaled_pairs, lessens_noise, shrunk_bias
from quarkfast.config import POLICY, Policy, Scheme
from quarkfast.config.scheme import Factors
from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.notes import add_equalized, add_note
from quarkfast.ranges.decibels import ratio_of
from quarkfast.wording import counted

__all__ = [
    "CROSS_LAYER_EQUALIZATION",
    "CrossLayerEqualizationSettings",
    "channels_between_layers",
    "equalize",
    "has_pairs_through_clip",
]

Values = NDArray[np.float64]

_DONE = "quarkfast.equalized"

# Turns without a given number: a chain of `n` layers takes about n^2 to settle, and octaves a few.
_MOST_STEPS = 100


@dataclass(frozen=True, slots=True)
class CrossLayerEqualizationSettings:
    """Settings of :func:`equalize`; those with Quark's names mean what they mean there, where they are given.

    Attributes:
        factors: Whether factors are rounded to powers of two, and whether pairs that gain little are left alone.
        cle_steps: How many times the pairs take their turns; -1 goes on until weights change by no more than
            `cle_total_layer_diff_threshold`, 100 times at most. None means once, and 4 times through gates: there most
            layers are depthwise convolutions or beside one, which belongs to two pairs.
        cle_balance_method: The magnitude that is made alike: the largest.
        cle_weight_threshold: Channels whose ``r0 + r1`` lies below it are left alone; None, unlike Quark's 0.5, leaves
            none.
        cle_scale_use_threshold: Whether that is looked at.
        cle_scale_append_bias: Whether a bias counts among the weights that make a channel, made smaller as in Quark.
        cle_total_layer_diff_threshold: Sum over layers of the mean change of a weight in one turn.
        largest_factor: No channel is scaled by more than this, up or down; None means 8 for exact factors and 4 for
            octaves. What weights gain beyond it, activations lose, whose channels share a scale or a block too.
        through_clip: Whether layers with a Clip between them, from zero to a limit, are pairs, too, where samples show
            which channels it never clips. These may be multiplied by more than 4: no channel reaches further than the
            furthest one.
        through_gates: Whether layers with a gate between them (`quarkfast.algorithms.layer_pairs`) are pairs, too: each
            that is scaled costs a Mul.
        policy: What weights have to gain with useful octaves before activations may lose, and how far factors go.
    """

    factors: Factors = "useful_octaves"
    cle_steps: int | None = None
    cle_balance_method: str = "max"
    cle_weight_threshold: float | None = None
    cle_scale_use_threshold: bool = True
    cle_scale_append_bias: bool = False
    cle_total_layer_diff_threshold: float = 1.9e-7
    largest_factor: float | None = None
    through_clip: bool = False
    through_gates: bool = False
    policy: Policy = POLICY

    @property
    def turns(self) -> int:
        """How many times pairs take their turns at the most."""
        if self.cle_steps is None:
            return self.policy.equalization_gate_turns if self.through_gates else 1
        return _MOST_STEPS if self.settles else self.cle_steps

    @property
    def settles(self) -> bool:
        """Whether turns go on until weights change little."""
        return self.cle_steps is not None and self.cle_steps < 0

    @property
    def limit(self) -> float:
        """The largest factor."""
        if self.largest_factor is not None:
            return self.largest_factor
        exact = self.factors == "exact"
        return self.policy.equalization_exact_factor if exact else self.policy.equalization_octave_factor

    @property
    def largest_through_clip(self) -> float:
        """The largest factor of a channel that a Clip is known to leave alone."""
        return math.inf if self.largest_factor is None else self.largest_factor


def equalize(
    model: ir.Model,
    settings: CrossLayerEqualizationSettings | Factors,
    channel_absmax: Mapping[str, NDArray[np.float32]] = MappingProxyType({}),
) -> bool:
    """Scales each channel between two layers that nothing else reads, in place.

    1. A pair is a Conv or Gemm, then Relu, LeakyRelu, pooling, Pad of zeros or ReduceMean over other axes, then a Conv
       or Gemm, each the only reader of the one before; no output between them is a graph output; weights and bias are
       constants that nothing else reads. A depthwise convolution is the second layer of one pair and the first of the
       next: turns that go on (`cle_steps`) bring all three to the cube root of their product, as Quark's triples do.
       With `through_clip` a Clip from zero to a limit, such as ReLU6, may stand there as well, for channels that
       samples leave below 0.8 of the limit and that stay below it with their factors; others keep theirs. With
       `through_gates` a pair may have the gate of a hard-swish between its layers, and several second layers
       (`quarkfast.algorithms.layer_pairs`).
    2. With ``r0`` the largest magnitude of the first layer's weights of a channel and ``r1`` that of the second's,
       ``s = sqrt(r1 / r0)``, limited to [1/8, 8]; 1 where either is zero. All but ``"exact"`` round it to a power of
       two and limit it to [1/4, 4].
    3. With ``"useful_octaves"`` a pair stays as it is unless the roundings of its weights, with one step for each
       layer, add a decibel less to what the second layer computes; three with a Clip between them.
    4. Where samples have shown how far channels reach, ``s`` is at most the power of two that brings a channel no
       further than the furthest one reaches: the step of what is between the layers does not grow. In front of a
       Clip no factor makes a bias larger than twice the largest of its layer.
    5. The first layer's weights and bias are multiplied by ``s``, the second's weights divided. Pairs take their turns
       in the order of the graph, as often as `cle_steps` says.

    Idempotent: a model that was equalized says so, and in which tensors (`quarkfast.graph.notes`). Graph inputs and
    outputs are kept. Error: none with powers of two, but where weights become subnormal; otherwise rounding of the
    weights to float32. Behind a Clip that holds for what reaches no further than the samples did. Tensors between the
    layers change their scale.

    A power of two changes nothing within a block of one channel's weights but the exponent that they share. Where all
    types are narrow blocks, factors are therefore ``"exact"``: ResNet-20 in MXFP8E4M3 has 12.1 dB with octaves, 13.9
    exact. Blocks of 8 significant bits gain less from it than activations lose: MX9 has 32.0 dB and 31.1 exact. (Both
    with every tensor rounded.) The step of integers is that of a layer's largest weight, and channels that are alike
    already only lose: with every pair equalized ResNet-56 in A16W8 has 30.2 dB, with those that gain 31.2.

    Args:
        model: Changed in place.
        settings: How far to go; how factors are rounded alone stands for the defaults.
        channel_absmax: The largest magnitude of each channel on samples, of the tensors of
            :func:`channels_between_layers`; nothing is known of the others.

    Returns:
        Whether any pair was scaled.

    Source:
        M. Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", 2019. Quark's has no
        limit, counts a part of the bias to ``r0`` and leaves channels of small weights alone.
    """
    if model.meta.get(_DONE):
        return False
    model.meta[_DONE] = True
    chosen = CrossLayerEqualizationSettings(settings) if isinstance(settings, str) else settings
    pairs = _pairs(model, chosen)
    for pair in pairs:
        pair.reach = channel_absmax.get(name_of(pair.read))
    for _ in range(chosen.turns):
        moved = [_scale(pair, chosen) for pair in pairs]
        if chosen.settles and sum(moved) <= chosen.cle_total_layer_diff_threshold:
            break
    scaled = [pair for pair in pairs if (pair.factors != 1).any()]
    add_equalized(model, (name_of(value) for pair in scaled for value in pair.values()))
    _note_clipped(model, sum(pair.is_clipped for pair in scaled))
    carry_factors(model, {pair.gate: pair.factors for pair in scaled if pair.gate is not None})
    return bool(scaled)


def channels_between_layers(model: ir.Model, settings: CrossLayerEqualizationSettings) -> dict[str, int]:
    """Returns what is between layers, as the second one reads it, and the axis of its channels, where that is needed.

    It is needed of all pairs for equalization through gates, else of those with a Clip between them, if any promises
    enough.
    """
    pairs = _pairs(model, settings)
    if not settings.through_gates:
        pairs = [pair for pair in pairs if pair.is_clipped]
        pairs = pairs if _promise(pairs, settings) else []
    return {name_of(pair.read): 1 for pair in pairs}


def has_pairs_through_clip(model: ir.Model, settings: CrossLayerEqualizationSettings) -> bool:
    """Whether a model has layers with a Clip between them whose weights promise enough, if samples let factors pass."""
    through = replace(settings, through_clip=True)
    return _promise([pair for pair in _pairs(model, through) if pair.is_clipped], through)


def _promise(pairs: Iterable[ScaledPair], settings: CrossLayerEqualizationSettings) -> bool:
    return any(_is_worthwhile(pair, _wanted(pair, settings), settings) for pair in pairs)


def _note_clipped(model: ir.Model, count: int) -> None:
    if count:
        add_note(
            model,
            f"cross-layer equalization: {counted(count, 'pair')} of layers with a Clip between them, by channels that "
            'samples leave below its limit; equalize_options={"through_clip": False} leaves them as they are',
        )


def _pairs(model: ir.Model, settings: CrossLayerEqualizationSettings) -> list[ScaledPair]:
    # Other factors are not weighed against what they bring.
    through_clip = settings.through_clip and settings.factors == "useful_octaves"
    return find_scaled_pairs(model, settings.through_gates, through_clip)


def _scale(pair: ScaledPair, settings: CrossLayerEqualizationSettings) -> float:
    """Scales a pair; returns the mean change of a weight, added up over its layers."""
    factors = pair.within_room(_wanted(pair, settings), settings.policy)
    return pair.scale(factors) if _is_worthwhile(pair, factors, settings) else 0.0


def _wanted(pair: ScaledPair, settings: CrossLayerEqualizationSettings) -> Values:
    """Returns the factors that weights on both sides ask for."""
    written, read = pair.weights()
    reach = channel_absmax(written)
    if settings.cle_scale_append_bias and pair.bias is not None:
        reach = np.maximum(reach, np.abs(shrunk_bias(pair.bias, written)))
    largest = settings.largest_through_clip if pair.is_clipped else settings.limit
    return _factors(reach, np.max([channel_absmax(rows) for rows in read], axis=0), settings, largest)


def _is_worthwhile(pair: ScaledPair, factors: Values, settings: CrossLayerEqualizationSettings) -> bool:
    """Whether weights gain enough by some factors, where that is asked for."""
    policy = settings.policy
    gain = policy.equalization_clip_gain if pair.is_clipped else ratio_of(policy.equalization_gain)
    return settings.factors != "useful_octaves" or lessens_noise(*pair.weights(), factors, gain)


def _factors(r0: Values, r1: Values, settings: CrossLayerEqualizationSettings, largest: float) -> Values:
    live = (r0 > 0) & (r1 > 0) & np.isfinite(r0 + r1)
    if settings.cle_weight_threshold is not None and settings.cle_scale_use_threshold:
        live &= r0 + r1 >= settings.cle_weight_threshold
    ratios = np.where(live, r1, 1.0) / np.where(live, r0, 1.0)
    # A ratio of 2^(e-1) up to 2^e has its root nearest to 2^floor(e / 2), on a scale of octaves.
    roots = np.sqrt(ratios) if settings.factors == "exact" else np.ldexp(1.0, np.frexp(ratios)[1] // 2)
    factors: Values = np.clip(roots, 1 / settings.limit, largest)
    return factors


def _settings(scheme: Scheme) -> Settings | None:
    if scheme.factors is None:
        return None
    return CrossLayerEqualizationSettings(scheme.factors, **dict(scheme.equalize_options), policy=scheme.policy)


def _run(context: AlgorithmContext, settings: CrossLayerEqualizationSettings) -> bool:
    return equalize(context.model, settings, context.channels_between)


CROSS_LAYER_EQUALIZATION = Algorithm("cross-layer equalization", "float weights", _settings, _run, stage="prepare")
