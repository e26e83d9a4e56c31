"""Whether a default session computes what a quantized model says, or its summary tells why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast import QuantizedModel, ort
from quarkfast.evaluate import sqnr

# What a default session may lose beside one that runs every node as it stands, in dB: integer kernels round a sum that
# lies between two codes to the other one, and floats are added up in another order.
CLOSE = 1.0

# What the summary names as the cause of a loss -> the entry of a session's configuration that ends it.
REMEDIES = {"MatMulNBits": ("session.qdq_matmulnbits_accuracy_level", "1")}

Feed = Mapping[str, NDArray[Any]]


def ratios(reference: Sequence[NDArray[Any]], outputs: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """The ratio of signal to noise of each output in dB; 300 for outputs that are equal to the float model's."""
    pairs = zip(reference, outputs, strict=True)
    return np.array([min(sqnr(one, other), 300.0) for one, other in pairs])


def losses(result: QuantizedModel, feed: Feed, reference: Sequence[NDArray[Any]]) -> dict[str, float]:
    """What a session of this processor loses beside exact sums, in dB: by default, and with remedies by their causes.

    Args:
        result: A quantized model and its summary.
        feed: Arrays by the names of its inputs.
        reference: The outputs of the float model. Of several outputs the one that loses most counts.
    """
    exact = ratios(reference, _run(result, feed, optimize=False))
    found = {"": float((exact - ratios(reference, _run(result, feed))).max())}
    for cause, remedy in REMEDIES.items():
        if any(cause in note for note in result.summary.notes):
            found[cause] = float((exact - ratios(reference, _run(result, feed, remedy))).max())
    return found


def agrees(found: Mapping[str, float]) -> bool:
    """Whether a default session is close to exact sums, or one with a remedy from the summary is."""
    return min(found.values()) < CLOSE


def _run(
    result: QuantizedModel, feed: Feed, remedy: tuple[str, str] | None = None, optimize: bool = True
) -> list[NDArray[Any]]:
    options = ort.session_options(threads=1, optimize=optimize)
    if remedy is not None:
        options.add_session_config_entry(*remedy)
    return ort.run(ort.inference_session(result.model_bytes, options), feed)
