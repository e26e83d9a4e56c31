"""How far the channels of float tensors reach on the first samples, before ranges are calibrated."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from quarkfast.calibration import observe
from quarkfast.pipeline.context import Context
from quarkfast.statistics import StatisticsRequest

__all__ = ["observe_channels"]

# Samples that show which channels stand out, which are the same ones in all of them: a sentence encoder in U8S8,
# calibrated with 64 sentences, has 24.0 dB with 64 and with 16 of them.
_SAMPLES = 16


def observe_channels(
    context: Context, kind: str, axes: Mapping[str, int]
) -> tuple[dict[str, NDArray[np.float32]], int]:
    """Returns the largest magnitude of each channel, by tensor, and the number of samples that it was seen on.

    Args:
        context: Its model runs on its samples.
        kind: What the result is remembered by (`quarkfast.pipeline.remembered`).
        axes: The axis of the channels, by tensor. One with an infinity or a NaN, which may lie in any channel, is left
            out of the result.
    """
    feeds = context.source.samples(context.model, context.scheme).rows(_SAMPLES)
    request = StatisticsRequest.of_channels(axes)
    seen, count = context.once(kind, request, lambda: observe(context.model, request, feeds))
    finite = {name: each for name, each in seen.items() if each.range.finite == each.range.count}
    return {name: each.channel_absmax for name, each in finite.items() if each.channel_absmax is not None}, count
