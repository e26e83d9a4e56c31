"""What a quantized model achieves on a holdout."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Quality"]


@dataclass(frozen=True, slots=True)
class Quality:
    """What a model achieves.

    Attributes:
        sqnr: Ratio of signal to quantization noise of the worst output, in dB.
        metric: The user's metric; None without one.
        logits: The ratio of the worst of what Softmax and Sigmoid make outputs of, in dB; None where they make none.
        doubt: How much less than the worst of both other samples may have, in dB.
        distance: By a metric of mixed precision, the less the closer.
        noise: The same as what about adds up over layers.
        ratios: The mean ratio of outputs of each sample, in dB.
    """

    sqnr: float
    metric: float | None = None
    logits: float | None = None
    doubt: float = 0.0
    distance: float = 0.0
    noise: float = 0.0
    ratios: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0), compare=False)

    @property
    def worst(self) -> float:
        """The ratio of the worst output or logits, in dB."""
        return self.sqnr if self.logits is None else min(self.sqnr, self.logits)

    @property
    def assured(self) -> float:
        """What others than the few samples that were judged have with it as well, in dB."""
        return self.worst - self.doubt
