"""Whether a default session computes what a quantized model says, or its summary tells why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from quarkfast import QuantizedModel, ort
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.formats import find
from quarkfast.formats.block import BLOCK_FORMATS
from support.processors import saturates

# What a default session may lose beside one that runs every node as it stands, in dB: integer kernels round a sum that
# lies between two codes to the other one, and floats are added up in another order.
CLOSE = 1.0

# Fewest bits whose rounding is told from chance.
_FEWEST = 8

# What the summary names as the cause of a loss -> the entry of a session's configuration that ends it.
REMEDIES = {"MatMulNBits": ("session.qdq_matmulnbits_accuracy_level", "1")}

Feed = Mapping[str, NDArray[Any]]


def best_ratio(activation: str) -> float:
    """The ratio of signal to noise in dB that one rounding of a full-scale sine to a type of activations leaves.

    It is 20 log10(2^bits) + 10 log10(3 / 2) dB: 49.9 of 8 bits, 98.1 of 16, 152.3 of float32. Better ratios are equal,
    being chance: a Softmax that is sure hides what rounding took. magika as uint8 (Quark's U8U8_AAWA) has 68 dB on four
    Python files with exact sums. QLinearConv rounds 78 of a million of its sums, which lie between two codes, to the
    other one, one of these is the largest of the 508 that GlobalMaxPool looks at, and 52 dB are left.

    Args:
        activation: Name of a type. Of floats and blocks the bits are the sign and the significand, of which a float32
            has 24. What has less than 8 bits is taken for one of 8.
    """
    if activation in BLOCK_FORMATS:
        bits = BLOCK_FORMATS[activation].significand + 1
    elif activation == "float32" or not find(activation).is_integer:
        bits = ml_dtypes.finfo("float32" if activation == "float32" else find(activation).dtype).nmant + 2
    else:
        bits = find(activation).bits
    return float(20 * np.log10(2.0 ** max(bits, _FEWEST)) + 10 * np.log10(1.5))


def run_samples(session: Any, feed: Feed) -> list[NDArray[Any]]:
    """The outputs of a model for samples, which run in turn where it takes so many at once and there are more."""
    sizes = {each.name: each.shape[0] for each in session.get_inputs() if each.shape}
    size = next((size for size in sizes.values() if isinstance(size, int)), None)
    count = max(len(values) for values in feed.values())
    if size is None or size >= count:
        return ort.run(session, feed)
    starts = range(0, count, size)
    runs = [ort.run(session, {name: values[start : start + size] for name, values in feed.items()}) for start in starts]
    return [np.concatenate(parts) for parts in zip(*runs, strict=True)]


def ratios(reference: Sequence[NDArray[Any]], outputs: Sequence[NDArray[Any]], activation: str) -> NDArray[np.float64]:
    """The ratio of signal to noise of each output in dB, at most the best that a type of activations leaves."""
    pairs = zip(reference, outputs, strict=True)
    return np.array([min(sqnr(one, other), best_ratio(activation)) for one, other in pairs])


def losses(
    result: QuantizedModel,
    feed: Feed,
    reference: Sequence[NDArray[Any]],
    beyond_chance: bool = False,
    level: Any = None,
) -> dict[str, float]:
    """What a session of this processor loses beside exact sums, in dB: by default, and with remedies by their causes.

    Args:
        result: A quantized model and its summary.
        feed: Arrays by the names of its inputs.
        reference: The outputs of the float model. Of several outputs the one that loses most counts.
        beyond_chance: Whether twice the standard error is taken off: of 97 in 100 losses by chance alone nothing
            is left then. It is that of the jackknife, which leaves out one row of the outputs after the other.
        level: An `onnxruntime.GraphOptimizationLevel` in place of the default's.
    """
    exact = run_samples(exact_session(result.model_bytes), feed)

    def loss(remedy: tuple[str, str] | None) -> float:
        options = ort.session_options(threads=1)
        if level is not None:
            options.graph_optimization_level = level
        if remedy is not None:
            options.add_session_config_entry(*remedy)
        outputs = run_samples(ort.inference_session(result.model_bytes, options), feed)
        return max(
            _loss(rows, result.summary.activation, beyond_chance)
            for rows in zip(reference, exact, outputs, strict=True)
        )

    found = {"": loss(None)}
    for cause, remedy in REMEDIES.items():
        if found[""] >= CLOSE and _tells(result, cause):
            found[cause] = loss(remedy)
    return found


def _loss(rows: tuple[NDArray[Any], NDArray[Any], NDArray[Any]], activation: str, beyond_chance: bool) -> float:
    """How many dB an output of a model lies below another one, beside a third that is right."""

    def loss(kept: NDArray[np.intp] | slice) -> float:
        right, one, other = (array[kept] if array.ndim else array for array in rows)
        return float((ratios([right], [one], activation) - ratios([right], [other], activation))[0])

    if not beyond_chance:
        return loss(slice(None))
    count = len(rows[0])
    without = [loss(np.delete(np.arange(count), row)) for row in range(count)]
    return loss(slice(None)) - 2 * float(np.std(without) * np.sqrt(count - 1))


def agrees(result: QuantizedModel, found: Mapping[str, float]) -> bool:
    """Whether a default session is close to exact sums, or the summary says why not.

    What it says is tried: with the remedy that it names the two are close. Sums that saturate where a processor has no
    VNNI are a cause on such processors alone.
    """
    return min(found.values()) < CLOSE or (saturates() and _tells(result, "processors without VNNI"))


def _tells(result: QuantizedModel, cause: str) -> bool:
    return any(cause in note for note in result.summary.notes)
