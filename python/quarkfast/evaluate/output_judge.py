"""How far the outputs of quantized models are from those of their float model, on the same samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.errors import ConfigError
from quarkfast.evaluate.common_shape import is_float_array
from quarkfast.evaluate.distance import DISTANCES, RATIOS
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.partial_model import Feed

__all__ = ["OutputJudge", "Verdict"]

_Rows = list[NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge says of a model.

    Attributes:
        distance: By the judge's metric; the less the closer, also for ratios, which are negative.
        noise: The same as what about adds up over layers: of a ratio the part of the power that is noise.
        sqnr: Of the worst output, in dB.
    """

    distance: float
    noise: float
    sqnr: float


class OutputJudge:
    """Knows what the float model gives for samples."""

    def __init__(self, reference: bytes, feeds: Sequence[Feed], metric: str, output: int | None) -> None:
        """Runs the float model.

        Args:
            reference: The float model.
            feeds: Arrays by the names of the inputs.
            metric: One of `quarkfast.evaluate.distance.DISTANCES`.
            output: Index of the output that the distance is of; None takes the worst.

        Raises:
            ConfigError: If the model has no such output of floats.
        """
        self._feeds, self._metric, self._output = feeds, metric, output
        self._wanted = self._outputs(ort.inference_session(reference, ort.session_options(optimize=False)))
        if output is not None and output not in self._wanted:
            known = ", ".join(map(str, self._wanted)) or "none"
            raise ConfigError(
                f"mixed_precision: output: expected the index of an output of floats ({known}), got {output}"
            )

    def judge(self, data: bytes) -> Verdict:
        """Runs a quantized model with exact sums."""
        found = self._outputs(exact_session(data))
        ratio = max((_distance(DISTANCES["sqnr"], rows, found[i]) for i, rows in self._wanted.items()), default=-np.inf)
        own = self._wanted if self._output is None else [self._output]
        distances = [_distance(DISTANCES[self._metric], self._wanted[index], found[index]) for index in own]
        distance = max(distances, default=-np.inf)
        noise = 10 ** (distance / 10) if self._metric in RATIOS else distance
        return Verdict(distance, float(noise), -ratio)

    def _outputs(self, session: Any) -> dict[int, _Rows]:
        """Returns every output of floats by its index, sample by sample."""
        runs = [ort.run(session, feed) for feed in self._feeds]
        indices = [index for index, output in enumerate(runs[0]) if is_float_array(output)]
        return {index: [np.asarray(run[index], np.float64) for run in runs] for index in indices}


def _distance(metric: Any, wanted: _Rows, found: _Rows) -> float:
    """Returns the distance; infinity for outputs of another shape, and for what is no number."""
    if any(one.shape != other.shape for one, other in zip(wanted, found, strict=True)):
        return float("inf")
    value = float(metric(wanted, found))
    return value if value == value else float("inf")  # NaN is not equal to itself
