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

    # What rounding one kind of tensors alone takes from the outputs.
    # 8-bit activations leave sound networks 20 to 30 dB; weights of one scale residual ones 26 to 35, others 2 to 18.
    alone_sqnr: float = _row(25.0, "dB", "that weights alone, or attention weights alone, must leave the outputs")
    # What activations that are rounded as they come leave sound networks is 20 to 40 dB.
    dynamic_sqnr: float = _row(20.0, "dB", "the same of layers that round what they read as it comes")
    dynamic_bias_samples: int = _row(5, "samples", "that give means for the biases of these", 1)
    # An orientation classifier has 43 dB on a page that it is sure of, and 12 dB on six pages.
    alone_outputs: int = _row(10_000, "numbers", "outputs of all samples that tell what is taken")
    alone_samples: int = _row(6, "samples", "most that are run for as many outputs", 1)
    form_gain: float = _row(1.0, "dB", "what outputs, and a weight, must gain by a form that costs no bytes")
    form_noise: float = _row(0.5, "share", "of the noise that a form which costs bytes may leave")
    form_halvings: int = _row(8, "halvings", "of a set of weights, to find those that make most noise")
    wide_share: float = _row(0.25, "share", "of the bytes of weights, and of activations, that may have over 8 bits")
    # One for each tensor of most networks.
    activation_runs: int = _row(192, "runs", "most that find out which activations make most noise")
    activation_negligible: float = _row(50.0, "ratio", "of the noise aimed at to that of a group left unsplit", 1)
    # Embeddings of text models have 39 to 46 dB; a quarter trained, 30, where outputs have more than 40.
    table_sqnr: float = _row(25.0, "dB", "that codes must leave a table which would stay float")
    # The scales of fewer take as many bytes as are saved.
    table_rows: int = _row(16, "rows", "fewest of a table that has a scale for each column")
    trial_certainty: float = _row(2.0, "standard errors", "what the mean of samples must be from zero to end a trial")
    trial_least_samples: int = _row(3, "samples", "fewest that end it", 2)
    # 1.6 GB of activations took 5.5 GB without optimizations, and 2.5 with them.
    measured_bytes: int = _row(256 << 20, "bytes", "activations of a sample up to which outputs are measured")
    # A sentence encoder in U8S8 has 24.0 dB with 64 and with 16.
    channel_samples: int = _row(16, "samples", "that show how far channels reach")

    # Ranges of activations.
    # More than half of the channels reach further on other images, a quarter by a tenth: -0.16 dB without, -0.04 with.
    portable_margin: float = _row(1.1, "ratio", "what other data may reach, beside samples, in sums of 16 bits", 1)
    # Rounding in 15 bits lies 80 dB below an activation, weights of 8 bits at 40.
    headroom: float = _row(2.0, "ratio", "of ranges of 16 bits to what samples showed", 1)
    # Three of eight bits: the smallest input keeps five.
    join_ratio: float = _row(8.0, "ratio", "of ranges up to which inputs of a Concat share a scale", 1)
    # Samples without events show nothing of what a detector is there to tell.
    bounded_share: float = _row(
        0.25, "share", "of a function's limits; results that showed less reach over all of them"
    )
    # Another calibration could undo less.
    function_gain: float = _row(1.0, "dB", "what results of a function must gain for the range that it reads to end")
    # Lossless octaves take three quarters; by a decibel a text recognizer in XINT8 read 8 words of 128 fewer.
    function_octave_noise: float = _row(0.25, "share", "of the error that the range an octave smaller may leave")
    tail_values: int = _row(5, "numbers", "fewest of the largest values that show how a tail falls off", 1)
    fold_ratio: float = _row(2.0, "ratio", "of factors of channels that may lie behind one scale", 1)
    # Two of eight bits.
    fold_concat_ratio: float = _row(4.0, "ratio", "of factors of two inputs from which on they move before a Concat", 1)

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
    # 23.6 dB with 2, 23.9 with 4, 23.6 with 8: what counts is which channels stand out.
    smoothing_reach: float = _row(4.0, "deviations", "that a normalized channel is taken to reach")
    # 22.6 dB with 1, 23.9 with 1.5, 23.6 with 2: tokens that lie far out do so in the channels of large reach.
    smoothing_power: float = _row(1.5, "power", "of how far a channel reaches beyond the median", 1)
    # 20.5 dB with 1.5, 23.9 with 3, 23.7 with 6.
    smoothing_sum_reach: float = _row(3.0, "deviations", "that a sum of such channels reaches, of all and of one term")
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

    # Noise of a tenth of the amplitude.
    poor_bias_sqnr: float = _row(20.0, "dB", "worst output below which output bias correction is tried unasked")
    # A text recognizer in XINT8 that gained 2.5 dB and then had 8.6 read 48 % of its words in place of 63 %.
    poor_bias_gain: float = _row(1.0, "dB", "what it must bring unasked")
    poor_bias_least: float = _row(10.0, "dB", "what outputs must have with it then")

    # Weight rounding.
    # Of 52 samples behind a global pool, a matrix of 200 inputs knows nothing in most directions.
    rounding_rows: int = _row(8, "rows", "for each input with which a Gram matrix says enough")
    # A sentence encoder in INT4_WO: -0.2 dB with a damping of 0.01 alone, +2.0 with this; GPTQ's paper has as many.
    rounding_narrow_rows: int = _row(64, "rows", "the same where narrow weights are all that is rounded")
    # The same in INT8_WO: 31.1 dB with the rows of narrow ones, 33.6 with the others, 31.2 with nearest codes.
    rounding_narrow_bits: int = _row(8, "bits", "weights of fewer are narrow there")
    rounding_rows_taken: int = _row(8, "rows", "that are taken for each input of a layer")
    rounding_least_rows: int = _row(2048, "rows", "fewest that are taken", 1)
    rounding_most_rows: int = _row(16384, "rows", "most that are taken", 1)
    rounding_samples: int = _row(64, "samples", "most that layers are run on", 1)
    rounding_damping: float = _row(0.01, "ratio", "of a Gram matrix's mean diagonal that is added to it")

    # The search: samples that judge and calibrate nothing, and what a lever must bring.
    search_holdout: int = _row(16, "samples", "most that judge what levers bring", 1)
    search_one_in: int = _row(4, "one in", "samples that is held apart for that", 1)
    # Of 100 draws of 8 or 16 samples 53 have more than many do; with one standard error less 22, with two 8.
    search_doubt: float = _row(2.0, "standard errors", "taken off a ratio before it reaches what is asked for")
    search_gain: float = _row(0.1, "dB", "what a lever must gain where a quality is asked for")
    # What one bit more would. A table structure recognizer: 6.3 to 9.7 dB by it, 11.3 to 7.9 beside chosen codes.
    search_gate_gain: float = _row(6.0, "dB", "the same of equalization through gates")
    # Codes chosen by outputs take minutes to find.
    search_code_gain: float = _row(3.0, "dB", "what a change may bring beyond its gain with nearest codes")
    # The samples that choose are others than those that judge.
    search_margin: float = _row(1.0, "dB", "above what is asked for, that the choice of tensors aims at")
    # Each aim is twice the one before, since every try quantizes once more.
    search_aim: float = _row(3.0, "dB", "above what there is, that the first choice of tensors for a metric aims at")
    search_halvings: int = _row(32, "halvings", "of a set of weights, to find those that need more bits")
    search_weight_samples: int = _row(2, "samples", "on which weights alone are judged", 1)
    search_near: float = _row(0.1, "dB", "more noise that is as good, where layers cannot reach what is asked for")
    activation_samples: int = _row(8, "samples", "that decide how many activations get more bits", 1)
    # With two outputs: four samples leave 23.9 dB of logits on 128 others, eight 25.8.
    activation_ranks: int = _row(2, "samples", "that rank activations; where outputs are few, all that decide", 1)

    # What is tried unasked, and options that rewrite the model.
    # Noise of a quarter of the signal's amplitude.
    poor_sqnr: float = _row(12.0, "dB", "of an output on the first sample below which it is called poor")
    # Of twelve pairs of a network and a preset eight gain 3.4 to 31 dB on 32 others, one 1.5, and three nothing.
    poor_gate_gain: float = _row(3.0, "dB", "what equalization through gates must bring to poor outputs")
    poor_clip_gain: float = _row(1.0, "dB", "what equalization through Clips alone must bring to them")
    poor_samples: int = _row(32, "samples", "most that are read for that")
    poor_sample_bytes: int = _row(256 << 20, "bytes", "most of these samples")
    poor_least_samples: int = _row(8, "samples", "fewest that judge what is tried unasked")
    # Where the samples that judge gain less, 32 others had -5 to +0.8 dB by it.
    asked_equalization_gain: float = _row(1.0, "dB", "what equalization through gates or Clips must bring to stay")
    asked_samples: int = _row(48, "samples", "most that calibrate options which are judged", 1)
    asked_least_samples: int = _row(4, "samples", "fewest with which options are judged", 1)

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

    def measure(self) -> str:
        """Returns value and unit as text.

        Example:
            >>> thresholds(Policy())[2].measure()
            '268,435,456 bytes'
        """
        value = f"{self.value:,}" if isinstance(self.value, int) else f"{self.value:g}"
        return f"{self.unit} {value}" if self.unit == "one in" else f"{value} {self.unit}"


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
