"""What an evaluation found: the scores of every output, and whether they are good enough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from quarkfast.errors import ConfigError, did_you_mean
from quarkfast.evaluate.scores import Scores

__all__ = ["LIMITS", "Evaluation"]

LIMITS = (
    *("sqnr", "cosine_mean", "cosine_min", "psnr_mean", "psnr_min"),
    *("top1", "top5", "ssim_mean", "ssim_min", "metric", "ap", "ap50"),
)
"""Figures of which more is better, which limits may name."""


@dataclass(frozen=True, slots=True)
class Precision:
    """Average precision of a detector, in percent.

    Attributes:
        against: What counts as true: ``"float model"`` or ``"labels"``.
        ap: Mean over overlaps of 0.5 to 0.95, as COCO has it.
        ap50: At an overlap of 0.5.
        reference_ap: `ap` of the float model; None where this is what counts as true.
        reference_ap50: Its `ap50`, likewise.
    """

    against: str
    ap: float
    ap50: float
    reference_ap: float | None = None
    reference_ap50: float | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How close the outputs of a model, or files, are to their reference.

    Attributes:
        scores: Of each output as ONNX Runtime adds on this processor, or of files.
        exact: The same with exact sums, which every processor has; empty where they were not asked for, or differ from
            `scores` by no more than a decibel on the first samples.
        metric: The user's metric of the model, with exact sums; None without one.
        reference_metric: That of the reference.
        precision: Average precision, where a detector's layout was given.
        not_compared: Outputs, or files, that only one side has or that hold no numbers.
    """

    scores: tuple[Scores, ...]
    exact: tuple[Scores, ...] = ()
    metric: float | None = None
    reference_metric: float | None = None
    not_compared: tuple[str, ...] = ()
    precision: Precision | None = None

    @property
    def judged(self) -> tuple[Scores, ...]:
        """The scores that count: with exact sums where there are some."""
        return self.exact or self.scores

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON."""
        return {
            "scores": [each.to_dict() for each in self.scores],
            "exact": [each.to_dict() for each in self.exact],
            "metric": self.metric,
            "reference_metric": self.reference_metric,
            "not_compared": list(self.not_compared),
            "precision": None if self.precision is None else asdict(self.precision),
        }

    def below(self, limits: Mapping[str, float]) -> list[str]:
        """Returns what is below its limit, as text; NaN is below every limit.

        Args:
            limits: Name of a figure, one of `LIMITS`, to the least that it shall be in every output that has it.

        Raises:
            ConfigError: If there is no such figure, or no output has it.
        """
        return [line for name, limit in limits.items() for line in self._below(name, limit)]

    def _below(self, name: str, limit: float) -> list[str]:
        if name not in LIMITS:
            raise ConfigError(f"limit: expected one of {', '.join(LIMITS)}, got {name!r}{did_you_mean(name, LIMITS)}")
        if name in ("ap", "ap50"):
            found = {} if self.precision is None else {"the model": getattr(self.precision, name)}
        elif name == "metric":
            found = {} if self.metric is None else {"the model": self.metric}
        else:
            values = {each.output: getattr(each, name) for each in self.judged}
            found = {output: value for output, value in values.items() if value is not None}
        if not found:
            raise ConfigError(f"limit: expected a figure that these outputs have, got {name!r}, which none of them has")
        return [
            f"{name} of {output} is {value:.6g}, less than {limit:g}"
            for output, value in found.items()
            if math.isnan(value) or value < limit
        ]
