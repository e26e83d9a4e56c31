"""How much noise forms of a model have on each of a few samples, to tell which form is the better."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import _core, ort
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.joined_pairs import join_pairs
from quarkfast.evaluate.logits import judge_also, judge_logits, logits_of
from quarkfast.evaluate.noise import OutputNoise, SignalAndNoise, powers_of
from quarkfast.evaluate.partial_model import Feed
from quarkfast.evaluate.ranked_outputs import judge_unranked

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
    """The noise of forms of a model beside the float model, on one sample after the other.

    Logits in place of probabilities are judged, what a ranking reads in place of its results
    (`quarkfast.evaluate.ranked_outputs`), and what the last layer reads.

    Attributes:
        numbers: How many numbers of outputs there were, over all samples.
    """

    def __init__(
        self, reference: onnx.ModelProto, folder: Path | None, features: str, forms: Sequence[TriedForm]
    ) -> None:
        """Opens the sessions.

        Args:
            reference: The float model; its outputs are changed.
            folder: Where the files are that it refers to, or None.
            features: What its last layer reads.
            forms: Models that have tensors of the same names; they are changed. Those that share a model share
                a session.

        Raises:
            ModelError: ONNX Runtime does not take a model.
        """
        self.numbers = 0
        judge_unranked(reference)
        self._logits = {each.tensor: each for each in logits_of(reference).values()}
        judged = judge_also(judge_logits(reference), features)
        self._names = [output.name for output in judged.graph.output]
        self._session = exact_session(judged, folder)
        models = {id(form.model): form for form in forms}
        sessions = {key: self._open(form) for key, form in models.items()}
        self._forms = [(sessions[id(form.model)], form.constants) for form in forms]
        self._seen: list[list[list[SignalAndNoise]]] = [[] for _ in forms]
        _core.release_memory()  # of what the sessions were read from

    def _open(self, form: TriedForm) -> Any:
        del form.model.graph.output[:]
        form.model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self._names)
        join_pairs(form.model)
        return exact_session(form.model, form.folder)

    def see(self, feed: Feed, places: Container[int] | None = None) -> None:
        """Runs the float model on a sample, and the forms.

        Args:
            feed: The sample.
            places: Which forms to run, by their places; None for all.

        Raises:
            ModelError: ONNX Runtime does not take it.
        """
        wanted = self._outputs(self._session, feed)
        self.numbers += sum(each.size for each in wanted)
        for place, (seen, (session, constants)) in enumerate(zip(self._seen, self._forms, strict=True)):
            runs = places is None or place in places
            found = self._outputs(session, {**feed, **constants}) if runs else wanted
            powers = [_powers(*pair) for pair in zip(wanted, found, strict=True)]
            seen.append(powers if runs else [each._replace(noise=np.nan) for each in powers])

    def noises(self) -> list[NDArray[np.float64]]:
        """Returns the noise of each form on each sample (`OutputNoise.beside_mean`); NaN where a form was not run."""
        return [OutputNoise.of(each).beside_mean() for each in self._seen]

    def close(self) -> None:
        """Ends the sessions, and gives their memory back."""
        self._session, self._forms = None, []
        _core.release_memory()

    def _outputs(self, session: Any, feed: Feed) -> list[NDArray[Any]]:
        found, logits = zip(self._names, ort.run(session, feed), strict=True), self._logits
        # Lists of tensors and of maps are not judged.
        given = [(name, each if isinstance(each, np.ndarray) else np.array(None)) for name, each in found]
        return [logits[name].telling(each) if name in logits else each for name, each in given]


def _powers(wanted: NDArray[Any], found: NDArray[Any]) -> SignalAndNoise:
    """Returns the power of an output and its noise; what is no array of floats does not count."""
    return powers_of(wanted, found) if wanted.dtype.kind == "f" else SignalAndNoise(0.0, 0.0)
