"""How far the outputs of a quantized model are from those of the float model, sample by sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import _core, ort
from quarkfast.evaluate.common_shape import in_one_shape, is_float_array
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.logits import judge_also
from quarkfast.evaluate.output_parts import OutputParts
from quarkfast.evaluate.ranked_outputs import judge_unranked
from quarkfast.reconstruction.activation_store import ActivationStore

__all__ = ["ReferenceOutputs"]

# Decibels at which a ratio ends on either side, so that no exact sample outweighs all others.
_MOST = 100.0

# Bytes of outputs of the float model to keep in memory.
_BUDGET = 1 << 18


class ReferenceOutputs:
    """What a float model gives for some samples, computed once, beside which quantized models are put.

    A ratio is that of signal to quantization noise of a sample in dB, the mean over float outputs. Boxes and scores
    that are joined to one output count as two (`quarkfast.evaluate.output_parts`), and what a ranking reads counts in
    place of its results (`quarkfast.evaluate.ranked_outputs`). All models run with exact sums. A ratio lies between
    -100 and 100 dB. Numbers that are not finite in the float model are left out; others make it -100 dB, and so does
    another shape. Outputs without signal are left out of the mean; a sample that has none is NaN.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        feeds: Sequence[Mapping[str, NDArray[Any]]],
        features: str = "",
        folder: Path | None = None,
    ) -> None:
        """Runs the float model.

        Args:
            model: The float model.
            feeds: Samples, by the names of the inputs.
            features: A tensor that counts as an output too, where a node of both models computes it: what the last
                layer reads tells more than the few numbers of a classifier, whose errors cancel by chance.
            folder: Where the files are that the model refers to, or None where all its constants are in it.

        Raises:
            ModelError: ONNX Runtime does not take the model or a sample.
        """
        self._feeds, self._features = feeds, features
        self._names = [output.name for output in _judged(model, features).graph.output]
        self._parts = OutputParts(model, [dict(each) for each in feeds], [dict.fromkeys(self._names)], folder)
        self._outputs = ActivationStore(_BUDGET)
        for sample, outputs in enumerate(self._runs(model, folder)):
            for name, output in outputs.items():
                self._outputs.put(name, sample, output)

    def __enter__(self) -> ReferenceOutputs:
        """Returns the outputs."""
        return self

    def __exit__(self, *error: Any) -> None:
        """Drops them."""
        self._outputs.__exit__(*error)

    def ratios_of(self, quantized: onnx.ModelProto, folder: Path | None = None) -> NDArray[np.float64]:
        """Returns the ratio of each sample for a quantized model with the same outputs, whose files are in a folder.

        Raises:
            ModelError: ONNX Runtime does not take the model or a sample.
        """
        return np.array([self._ratio(sample, outputs) for sample, outputs in enumerate(self._runs(quantized, folder))])

    def _runs(self, model: onnx.ModelProto, folder: Path | None) -> Iterator[Mapping[str, Any]]:
        _core.release_memory()
        session = exact_session(_judged(model, self._features).SerializeToString(), folder)
        for feed in self._feeds:
            yield dict(zip(self._names, ort.run(session, feed), strict=True))
        del session
        _core.release_memory()

    def _ratio(self, sample: int, got: Mapping[str, Any]) -> float:
        wanted = {name: self._outputs.get(name, sample) for name in self._names}
        names = [name for name in self._names if is_float_array(wanted[name])]
        pairs = [pair for name in names for pair in _parts(self._parts, sample, name, wanted, got)]
        powers = [_powers(expected.astype(np.float64), given.astype(np.float64)) for expected, given in pairs]
        ratios = [_decibels(*power) for power in powers if power.any()]
        return float(np.mean(ratios)) if ratios else np.nan


def _parts(
    parts: OutputParts, sample: int, name: str, wanted: Mapping[str, Any], got: Mapping[str, Any]
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Returns the parts of an output, in both models; the whole where shapes differ."""
    if wanted[name].shape != got[name].shape:
        return [in_one_shape(wanted[name], got[name])]
    split = (parts.split(sample, name, each[name]) for each in (wanted, got))
    return list(zip(*split, strict=True))


def _judged(model: onnx.ModelProto, features: str) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return judge_also(judge_unranked(copy), features)


def _powers(expected: NDArray[np.float64], got: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the power of the signal and of the noise."""
    if expected.shape != got.shape:
        return np.array([0.0, np.inf])
    known = np.isfinite(expected)
    signal, noise = expected[known], expected[known] - got[known]
    return np.array([np.square(signal).sum(), np.square(noise).sum() if np.isfinite(noise).all() else np.inf])


def _decibels(signal: float, noise: float) -> float:
    if not noise:
        return _MOST
    ratio = 10 * np.log10(signal / noise) if signal and np.isfinite(noise) else -_MOST
    return float(np.clip(ratio, -_MOST, _MOST))
