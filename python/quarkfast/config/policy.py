"""The policy: every threshold that decides about accuracy, with its unit, its purpose and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, NamedTuple

from quarkfast.errors import ConfigError, did_you_mean

__all__ = ["POLICY", "Policy", "Threshold", "read_policy", "thresholds"]

# Unit -> the least and the largest value that means anything; a quality in dB may be one that everything has.
_BOUNDS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"dB": (-math.inf, math.inf), "share": (0, 1), "one in": (1, math.inf)}
)


def _row(value: float, unit: str, purpose: str, least: float | None = None) -> Any:
    """Returns a field with its default, its unit, what it is for, and the least value where that is another."""
    return field(default=value, metadata={"unit": unit, "purpose": purpose, "least": least})


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Thresholds of accuracy: what is tried, on how many samples, what it must bring, and what it may take.

    Whole numbers count samples, outputs, bits, bytes, octaves or turns; the others are in dB, shares from 0 to 1,
    ratios, or standard errors of a mean. :func:`dataclasses.replace` makes another one.

    Raises:
        ConfigError: If a value is no number, not a whole one where something is counted, or out of its bounds.

    Example:
        >>> from dataclasses import replace
        >>> replace(Policy(), bias_samples=9).bias_samples
        9
    """

    # What is tried at all.
    # Errors of few numbers cancel by chance.
    few_outputs: int = _row(1000, "numbers", "outputs of a sample below which more samples judge")
    # Codes of 16 bits take 48 dB less than those of 8.
    narrow_bits: int = _row(8, "bits", "codes of more are left alone by what mends the errors of coarse ones")
    # Several forms of the weights are in memory beside the model.
    tried_bytes: int = _row(256 << 20, "bytes", "weights up to which other forms of them are tried on samples")
    # Weights are stored of models larger than memory.
    run_bytes: int = _row(1 << 30, "bytes", "constants up to which a model runs that nothing else runs")
    # Three models are in memory at once.
    judged_bytes: int = _row(1 << 30, "bytes", "model up to which a second result is judged beside the first")

    # Samples held apart, by which rounding and biases are judged.
    # Of 16 images of CIFAR-10 three draws in ten show 0.5 dB of gain as a loss, of 40 one in seven.
    apart_one_in: int = _row(5, "one in", "samples that is held apart to judge")
    apart_most: int = _row(40, "samples", "most that are held apart")
    # Four samples of a barcode detector lost 1.5 dB by less than a standard error, and so did others.
    apart_few: int = _row(8, "samples", "fewer say little of how far they differ")
    apart_loss: float = _row(0.5, "dB", "what the mean of such few may lose by chance")

    # Range search and scale alignment: one kind of ranges for all activations.
    kinds_samples: int = _row(64, "samples", "most that judge kinds of ranges")
    kinds_least_samples: int = _row(12, "samples", "with fewer ranges stay as they are")
    kinds_enough_outputs: int = _row(100_000, "numbers", "outputs of all samples that tell as much as more would")
    kinds_one_in: int = _row(3, "one in", "samples that is held apart, and judges what the others choose")
    kinds_certainty: float = _row(1.0, "standard errors", "what another kind must gain to be chosen")
    kinds_objection: float = _row(2.0, "standard errors", "loss on samples held apart that undoes the choice")
    # Less would change the model by chance.
    alignment_gain: float = _row(0.1, "dB", "what expected noise must fall by for tensors to be multiplied")
    # 41 to 46 dB where nearest codes have 29 to 35.
    alignment_left_by_rounding: float = _row(0.1, "share", "noise of weights that is left where codes are chosen")
    shift_gain: float = _row(0.1, "dB", "what squared steps must fall by for activations to lose offsets")

    # Range method: extremes, or ranges of least squared error.
    # Of 47 pairs of a model and a preset: 66 of the 67 dB to be had, 6.3 samples in the mean, and no pair loses.
    range_method_certainty: float = _row(1.0, "standard errors", "what the mean of samples must be from zero to decide")
    # Student's t: what the mean of samples that say nothing exceeds once in twenty times.
    range_method_certainty_of_three: float = _row(4.30, "standard errors", "the same of three samples")
    range_method_certainty_of_four: float = _row(3.18, "standard errors", "the same of four with enough outputs")
    range_method_samples: int = _row(16, "samples", "most that judge")
    range_method_least_samples: int = _row(5, "samples", "with fewer ranges stay; with these the mean decides", 3)
    range_method_enough_outputs: int = _row(10_000, "numbers", "outputs of all samples with which four may decide")

    # Cross-layer equalization.
    # Less is chance; activations may lose as much.
    equalization_gain: float = _row(1.0, "dB", "what weights must gain by octaves between two layers")
    # Pairs that need it gain 4 to 20 dB; with those of a depthwise network that gain 1 or 2 activations lose as much.
    equalization_clip_gain: float = _row(
        2.0, "ratio", "how much less noise weights must have by factors through a Clip"
    )
    # 14.5, 9.7, 7.8 dB with one turn, 18.5, 9.7, 10.5 with four: three networks with hard-swish in A8W8.
    equalization_gate_turns: int = _row(4, "turns", "how often pairs take their turns through gates")
    # A super-resolution network in A8W8: 21.3 dB without, 33.0 with exact factors up to 8, 33.9 with octaves up to 4.
    equalization_exact_factor: float = _row(8.0, "ratio", "largest factor of a channel where factors are exact", 1)
    equalization_octave_factor: float = _row(4.0, "ratio", "largest factor of a channel in powers of two", 1)
    # Outputs of 64 other samples keep all bits, of another network 44 to 64 dB; up to the limit 55 to 75, 26 to 48.
    equalization_unclipped: float = _row(0.8, "share", "of a Clip's limit up to which it is taken never to clip")
    # A bit of 8. Without it a segmentation network has 4.4 dB in XINT8 in place of 13.0.
    equalization_bias_growth: float = _row(
        2.0, "ratio", "what biases in front of a Clip may grow to, beside the largest"
    )
    # Channels that are alike are some tenths of a decibel better or worse in another basis, by chance.
    rotation_gain: float = _row(1.0, "dB", "what a residual stream must gain by its weights to be turned")

    # Channels that stand out in front of matrix products.
    # A sentence encoder has 25.9 dB with 1, 25.6 with 1.5 and 2, 24.3 with 3; a larger bound repeats fewer.
    split_bound: float = _row(
        2.0, "ratio", "beyond this many medians a channel stands out, with scales made as it runs"
    )
    # The same in A8W8: 18.05 dB with 1.5, 17.9 with 2; in U8S8 24.2 and 24.05.
    split_fixed_bound: float = _row(1.5, "ratio", "the same with scales that are known beforehand")
    split_octaves: int = _row(6, "octaves", "most that a channel is split by")
    split_share: float = _row(1 / 8, "share", "of a tensor's channels that may be repeats")
    # Beyond a factor of 8 activations gain less than weights lose.
    smoothing_octaves: int = _row(3, "octaves", "most that a channel is divided by where no samples are seen")
    # A channel that is nearly zero in the samples may not be so elsewhere.
    smooth_quant_factor: float = _row(1e3, "ratio", "largest factor of a channel in SmoothQuant", 1)

    # Bias correction.
    # Two give means, the third judges.
    bias_first: int = _row(2, "samples", "that give means in front of the one that judges", 1)
    bias_samples: int = _row(5, "samples", "that are read", 1)
    bias_one_in: int = _row(4, "one in", "samples that gave ranges is read at the most")
    bias_more: int = _row(4, "samples", "further ones for means where outputs are few")
    bias_judges: int = _row(7, "samples", "further ones that judge where outputs are few")
    bias_all_one_in: int = _row(3, "one in", "the same where outputs are few")
    output_bias_samples: int = _row(4, "samples", "that layers are run on for their mean errors", 1)
    output_bias_apart: int = _row(4, "samples", "that judge output bias correction")
    output_bias_of_few: int = _row(8, "samples", "most of either where outputs are few")

    # Weight rounding.
    # Of 52 samples behind a global pool, a matrix of 200 inputs knows nothing in most directions.
    rounding_rows: int = _row(8, "rows", "for each input with which a Gram matrix says enough")
    # A sentence encoder in INT4_WO: -0.2 dB with a damping of 0.01 alone, +2.0 with this; GPTQ's paper has as many.
    rounding_narrow_rows: int = _row(64, "rows", "the same where narrow weights are all that is rounded")
    # The same in INT8_WO: 31.1 dB with the rows of narrow ones, 33.6 with the others, 31.2 with nearest codes.
    rounding_narrow_bits: int = _row(8, "bits", "weights of fewer are narrow there")
    rounding_samples: int = _row(64, "samples", "most that layers are run on", 1)
    rounding_damping: float = _row(0.01, "ratio", "of a Gram matrix's mean diagonal that is added to it")

    def __post_init__(self) -> None:
        """Checks every value."""
        for row in thresholds(self):
            _check(row)

    def changes(self) -> dict[str, float]:
        """Returns the thresholds that differ from the usual ones, by name.

        Example:
            >>> Policy(bias_samples=9).changes()
            {'bias_samples': 9}
        """
        usual = {each.name: each.default for each in fields(self)}
        return {row.name: row.value for row in thresholds(self) if row.value != usual[row.name]}


class Threshold(NamedTuple):
    """One row of a policy.

    Attributes:
        name: Name of the field.
        value: What it is.
        unit: What it counts or measures.
        purpose: What it is for.
    """

    name: str
    value: float
    unit: str
    purpose: str


def thresholds(policy: Policy) -> tuple[Threshold, ...]:
    """Returns the rows of a policy in their order.

    Example:
        >>> thresholds(Policy())[0][:3]
        ('few_outputs', 1000, 'numbers')
    """
    rows = ((each.name, each.metadata["unit"], each.metadata["purpose"]) for each in fields(Policy))
    return tuple(Threshold(name, getattr(policy, name), unit, purpose) for name, unit, purpose in rows)


def _check(row: Threshold) -> None:
    known = Policy.__dataclass_fields__[row.name]
    whole, least = isinstance(known.default, int), known.metadata["least"]
    low, high = _BOUNDS.get(row.unit, (0, math.inf))
    low = low if least is None else least
    kinds: Any = int if whole else int | float
    if isinstance(row.value, bool) or not isinstance(row.value, kinds) or not low <= row.value <= high:
        limits = "" if low == -math.inf else f" of {low} or more" if high == math.inf else f" from {low} to {high}"
        expected = f"a {'whole ' if whole else ''}number{limits}"
        raise ConfigError(f"policy: {row.name}: expected {expected}, got {row.value!r}")


def read_policy(value: Policy | Mapping[str, Any]) -> Policy:
    """Returns a policy, also from the thresholds that differ, by name.

    Raises:
        ConfigError: If a name is unknown, or a value means nothing.

    Example:
        >>> read_policy({"bias_samples": 9}) == Policy(bias_samples=9)
        True
    """
    if isinstance(value, Policy):
        return value
    known = tuple(each.name for each in fields(Policy))
    for name in value:
        if name not in known:
            raise ConfigError(f"policy: expected known thresholds, got {name!r}{did_you_mean(name, known)}")
    return Policy(**value)


POLICY = Policy()
"""The thresholds that hold where nobody gives others."""
