"""What a judge of outputs and logits says of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quarkfast.evaluate.judge import Counted, Judge
from quarkfast.evaluate.noise import Ratios


def judged(reference: Any, holdout: Sequence[Any], quantized: Any) -> Ratios:
    """The ratios of all samples together, logits among them."""
    with Judge(reference, holdout, Counted(logits=True)) as judge:
        return judge.noise(quantized).over_samples()
