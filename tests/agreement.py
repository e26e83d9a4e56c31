"""Whether a default session computes what a quantized model says, or its summary tells why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from processors import saturates
from quarkfast import QuantizedModel, ort
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session

# What a default session may lose beside one that runs every node as it stands, in dB: integer kernels round a sum that
# lies between two codes to the other one, and floats are added up in another order.
CLOSE = 1.0

# A ratio that one rounding of a full-scale sine to 8 bits leaves, 20 log10(2^8) + 1.76 dB: beyond it a session has lost
# less than the best of the roundings that the model asks for.
EQUAL = 49.9

# What the summary names as the cause of a loss -> the entry of a session's configuration that ends it.
REMEDIES = {"MatMulNBits": ("session.qdq_matmulnbits_accuracy_level", "1")}

Feed = Mapping[str, NDArray[Any]]


def ratios(reference: Sequence[NDArray[Any]], outputs: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """The ratio of signal to noise of each output in dB, at most that of equal ones."""
    pairs = zip(reference, outputs, strict=True)
    return np.array([min(sqnr(one, other), EQUAL) for one, other in pairs])


def losses(result: QuantizedModel, feed: Feed, reference: Sequence[NDArray[Any]]) -> dict[str, float]:
    """What a session of this processor loses beside exact sums, in dB: by default, and with remedies by their causes.

    Args:
        result: A quantized model and its summary.
        feed: Arrays by the names of its inputs.
        reference: The outputs of the float model. Of several outputs the one that loses most counts.
    """
    exact = ratios(reference, exact_session(result.model_bytes).run(None, dict(feed)))
    found = {"": _loss(result, feed, reference, exact)}
    for cause, remedy in REMEDIES.items():
        if found[""] >= CLOSE and _tells(result, cause):
            found[cause] = _loss(result, feed, reference, exact, remedy)
    return found


def agrees(result: QuantizedModel, found: Mapping[str, float]) -> bool:
    """Whether a default session is close to exact sums, or the summary says why not.

    What it says is tried: with the remedy that it names the two are close. Sums that saturate where a processor has no
    VNNI are a cause on such processors alone.
    """
    return min(found.values()) < CLOSE or (saturates() and _tells(result, "processors without VNNI"))


def _tells(result: QuantizedModel, cause: str) -> bool:
    return any(cause in note for note in result.summary.notes)


def _loss(
    result: QuantizedModel,
    feed: Feed,
    reference: Sequence[NDArray[Any]],
    exact: NDArray[np.float64],
    remedy: tuple[str, str] | None = None,
) -> float:
    options = ort.session_options(threads=1)
    if remedy is not None:
        options.add_session_config_entry(*remedy)
    outputs = ort.run(ort.inference_session(result.model_bytes, options), feed)
    return float((exact - ratios(reference, outputs)).max())
