"""What other values of a model's constants do to its outputs, on a few samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import _core, ort
from quarkfast.evaluate.partial_model import Feed

__all__ = ["ConstantTrial", "decibels"]

# Noise, as a part of the power, up to which two runs of float32 are the same: sessions that add in another order are
# off by a few hundred times 2**-24.
_OTHER_ORDER = 1e-8


class ConstantTrial:
    """One session on a model, whose constants are inputs, so that each run may have others.

    Attributes:
        is_steady: Whether the model gives the same outputs for the same inputs, and some that are float and not zero.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        folder: Path | None,
        constants: Mapping[str, NDArray[Any]],
        feeds: Sequence[Feed],
        references: Sequence[Sequence[Any]] | None = None,
    ) -> None:
        """Opens the session, runs it with the constants as they are, and again on the first sample.

        Args:
            model: A float model; constants that are to change become inputs of it, unless they are
                (`quarkfast.graph.external_constants.with_constants_as_inputs` takes less memory).
            folder: Where the files are that the model refers to, or None.
            constants: The constants that are to change, by name.
            feeds: The samples: arrays by the names of the model's inputs.
            references: What the model gives for them, where that is known; else the session finds it out.

        Raises:
            ModelError: If ONNX Runtime does not take the model or a sample.
        """
        kept = [tensor for tensor in model.graph.initializer if tensor.name not in constants]
        if len(kept) < len(model.graph.initializer):
            del model.graph.initializer[:]
            model.graph.initializer.extend(kept)
        given = {value.name for value in model.graph.input}
        for name, values in constants.items():
            if name not in given:
                kind = onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
                model.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, values.shape))
        options = ort.lean_options(optimize=False)
        self._session = ort.inference_session(model.SerializeToString(), options, folder=folder)
        _core.release_memory()  # of what the session was read from
        self._feeds = [{**feed, **constants} for feed in feeds]
        self._references = references or [list(map(np.array, ort.run(self._session, feed))) for feed in self._feeds]
        self._judged = [[index for index, each in enumerate(found) if _is_judged(each)] for found in self._references]
        self.is_steady = all(self._judged) and self._noise_on(0, {}) <= (_OTHER_ORDER if references else 0.0)

    def noise(self, constants: Mapping[str, NDArray[Any]]) -> float:
        """Returns the noise of the outputs with other constants, as a part of their power: of the worst output.

        Outputs that are no floats, hold something infinite or nothing but zero do not count. Of several samples it is
        the geometric mean, so that no single one decides.
        """
        found = [self._noise_on(sample, constants) for sample in range(len(self._feeds))]
        if len(found) == 1:
            return found[0]
        return math.exp(sum(map(math.log, found)) / len(found)) if all(found) else 0.0

    def _noise_on(self, sample: int, constants: Mapping[str, NDArray[Any]]) -> float:
        found, reference = ort.run(self._session, {**self._feeds[sample], **constants}), self._references[sample]
        return max(_noise(reference[index], found[index]) for index in self._judged[sample])

    def close(self) -> None:
        """Ends the session, and gives its memory back."""
        self._session = None
        _core.release_memory()


def _is_judged(output: object) -> bool:
    return (
        isinstance(output, np.ndarray)
        and output.dtype.kind == "f"
        and bool(np.isfinite(output).all())
        and bool(output.any())
    )


def _noise(reference: NDArray[Any], output: NDArray[Any]) -> float:
    if reference.shape != output.shape or not np.isfinite(output).all():
        return float("inf")
    one, other = reference.astype(np.float64), output.astype(np.float64)
    return float(np.square(one - other).sum() / np.square(one).sum())


def decibels(noise: float) -> str:
    """Returns a part of a signal's power in words: how far it lies below the signal.

    Example:
        >>> decibels(0.001)
        '30.0 dB'
    """
    return f"{-10 * math.log10(noise) if noise else math.inf:.1f} dB"
