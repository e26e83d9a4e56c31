"""How much noise forms of a model have on each of a few samples, to tell which form is the better."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import _core, ort
from quarkfast.evaluate.common_shape import in_one_shape
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.logits import judge_also, judge_logits, logits_of
from quarkfast.evaluate.partial_model import Feed

__all__ = ["SampleNoise", "TriedForm"]


class TriedForm(NamedTuple):
    """A form of a model. Several may share a model and differ in constants alone, which are inputs of it.

    Attributes:
        model: The model.
        folder: Where the files are that it refers to, or None.
        constants: Those that are inputs, by name.
    """

    model: onnx.ModelProto
    folder: Path | None = None
    constants: Feed = MappingProxyType({})


class SampleNoise:
    """Knows what the float model gives for samples: logits in place of probabilities, and what its last layer reads.

    Attributes:
        can_judge: Whether there is an output of floats, finite and not zero.
    """

    def __init__(
        self,
        reference: onnx.ModelProto,
        folder: Path | None,
        features: str,
        feeds: Sequence[Feed],
        least: int,
        enough: int,
    ) -> None:
        """Runs the float model, on as many of the samples as tell enough.

        Args:
            reference: The float model; its outputs are changed.
            folder: Where the files are that it refers to, or None.
            features: What its last layer reads.
            feeds: Samples, by the names of the inputs.
            least: Samples to run at least.
            enough: Numbers of outputs, over all samples, with which no more samples are run.

        Raises:
            ModelError: ONNX Runtime does not take the model or a sample.
        """
        self._logits = {each.tensor: each for each in logits_of(reference).values()}
        judged = judge_also(judge_logits(reference), features)
        self._names, self._wanted = [output.name for output in judged.graph.output], list[list[NDArray[Any]]]()
        session, numbers = exact_session(judged, folder), 0
        for feed in feeds:
            if len(self._wanted) >= least and numbers >= enough:
                break
            self._wanted.append(self._outputs(session, feed))
            numbers += sum(each.size for each in self._wanted[-1])
        del session, judged, reference
        _core.release_memory()
        self._feeds = feeds[: len(self._wanted)]
        zeros = [[np.zeros_like(each) for each in outputs] for outputs in self._wanted]
        powers = np.mean([_noises(*pair) for pair in zip(zeros, self._wanted, strict=True)], axis=0)
        self._counted = np.isfinite(powers) & (powers > 0)
        self._power = powers
        self.can_judge = bool(self._counted.any())

    def of(self, *forms: TriedForm) -> list[NDArray[np.float64]]:
        """Returns the noise of each form on each sample beside the mean power of a sample's outputs.

        Its mean is that of all. It is the mean over outputs of floats; those that are not finite in the float model,
        and those of nothing but zeros, do not count.

        Args:
            forms: Models that have tensors of the same names; their outputs are changed. Neighbours that share a model
                share a session.
        """
        found: list[NDArray[np.float64]] = []
        for _, several in groupby(forms, lambda form: id(form.model)):
            found += self._in_one_session(list(several))
            _core.release_memory()
        return found

    def _in_one_session(self, forms: Sequence[TriedForm]) -> list[NDArray[np.float64]]:
        model, folder, _ = forms[0]
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self._names)
        session = exact_session(model, folder)
        return [self._of(session, form.constants) for form in forms]

    def _of(self, session: Any, constants: Feed) -> NDArray[np.float64]:
        noises = [
            _noises(wanted, self._outputs(session, {**feed, **constants}))
            for feed, wanted in zip(self._feeds, self._wanted, strict=True)
        ]
        found: NDArray[np.float64] = (np.array(noises)[:, self._counted] / self._power[self._counted]).mean(axis=1)
        return found

    def _outputs(self, session: Any, feed: Feed) -> list[NDArray[Any]]:
        found = zip(self._names, ort.run(session, feed), strict=True)
        logits = self._logits
        # Copies, since results keep a session's memory.
        return [np.array(logits[name].telling(each) if name in logits else each) for name, each in found]


def _noises(wanted: Sequence[NDArray[Any]], got: Sequence[NDArray[Any]]) -> list[float]:
    """Returns the sum of squared differences of each output; infinity where shapes differ or it is not finite."""
    return [
        float(np.square(one.astype(np.float64) - other).sum())
        if one.dtype.kind == "f" and one.shape == other.shape and np.isfinite(other).all()
        else np.inf
        for one, other in (in_one_shape(*pair) for pair in zip(wanted, got, strict=True))
    ]
