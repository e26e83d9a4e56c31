"""Two models on the same samples, output by output."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.calibration.data import CalibrationData, Feed, Samples, model_inputs, open_data
from quarkfast.calibration.data.inputs import rows_of
from quarkfast.errors import ConfigError, ModelError
from quarkfast.evaluate.accuracy import differ
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.scores import Gathered, scores_by_name
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.graph.save import file_or_bytes
from quarkfast.pipeline.evaluation import Evaluation
from quarkfast.pipeline.single_rows import cut_to_rows
from quarkfast.pipeline.user_metric import Metric, measure_metric, read_metric

__all__ = ["SUMS", "evaluate_models"]

SUMS = ("auto", "runtime", "exact", "both")
"""How a quantized model is run."""

_WHERE = "evaluate"
# Samples on which it is decided whether exact sums differ from those of a default session.
_TRIED = 16
_BATCH = 16

Progress = Callable[[str, int, int | None], None]
ModelFile = str | os.PathLike[str] | bytes


def evaluate_models(
    reference: ModelSource,
    model: ModelSource,
    data: CalibrationData,
    *,
    samples: int | None = None,
    batch_size: int | None = None,
    preprocess: str | Mapping[str, Any] | None = None,
    sums: str = "auto",
    metric: Metric | str | None = None,
    metric_data: Any = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Runs two models on the same samples and says how close the second comes to the first.

    Outputs are compared by name, or by position where no name is the same. One batch is in memory at a time.

    Args:
        reference: The float model: a path, an ``onnx.ModelProto`` or an ``onnx_ir.Model``.
        model: Another with the same inputs: quantized by whatever tool, or not at all.
        data: Samples, of every kind that :func:`quarkfast.quantize` takes.
        samples: How many to read; all by default.
        batch_size: Rows of a run; 16 by default where the model leaves their number open.
        preprocess: How image files become inputs, as for :func:`quarkfast.quantize`.
        sums: ``"runtime"`` adds as ONNX Runtime does in a default session on this processor, ``"exact"`` as the model
            is written, ``"both"`` does both, and ``"auto"`` adds exact sums where these differ by more than a decibel
            on the first 16 samples.
        metric: A function of a session with exact sums and of `metric_data`, or ``"module:function"``; more is better.
        metric_data: What it is given; None hands it the list of all feeds.
        progress: Called as samples are done: stage, samples done, samples in all or None.

    Returns:
        Scores of every output.

    Raises:
        ConfigError: If `sums` or the metric is none.
        ModelError: If a model cannot be read or run, or they have nothing in common.
        CalibrationError: If samples are missing or do not fit.

    Example:
        >>> import quarkfast
        >>> from quarkfast.demo.data import MODEL, load_images
        >>> images = load_images()
        >>> result = quarkfast.quantize(MODEL, "digits.onnx", "U8S8", {"image": images.calibration})
        >>> found = quarkfast.evaluate_models(MODEL, "digits.onnx", {"image": images.test}, sums="exact")
        >>> found.exact[0].sqnr > 30, found.exact[0].top1 > 99
        (True, True)
    """
    if sums not in SUMS:
        raise ConfigError(f"sums: expected one of {', '.join(SUMS)}, got {sums!r}")
    if metric_data is not None and metric is None:
        raise ConfigError("metric_data: expected a metric that takes it, got none")
    function = None if metric is None else read_metric(metric)
    loaded = load_model(reference)
    load_model(model)  # whose files are looked for in its own folder alone
    opened = open_data(data, model_inputs(loaded), samples, batch_size, preprocess)
    if batch_size is None:
        cut_to_rows(opened, loaded, _BATCH)
    del loaded
    if function is not None and metric_data is None:
        opened.keep()
    sources = file_or_bytes(reference), file_or_bytes(model)
    run = _Run(*sources, sums)
    run.over(opened, progress)
    figures: dict[str, float | None] = {"metric": None, "reference_metric": None}
    if function is not None:
        given = list(opened) if metric_data is None else metric_data
        for name, source in zip(("reference_metric", "metric"), sources, strict=True):
            figures[name] = measure_metric(function, exact_session(source), given)
    return Evaluation(scores_by_name(run.found), scores_by_name(run.exact), not_compared=run.left, **figures)


class _Run:
    """The sessions of both models, and what their outputs have in common so far."""

    def __init__(self, reference: ModelFile, model: ModelFile, sums: str) -> None:
        """Opens the sessions that are needed from the start."""
        self._sums = sums
        self._reference = _session(reference)
        self._default = None if sums == "exact" else _session(model)
        self._exact = None if sums == "runtime" else exact_session(model)
        either = self._default or self._exact
        self._inputs = _same_inputs(self._reference, either)
        self._pairs, self.left = _pairs(self._reference, either)
        self.found, self.exact = ({name: Gathered(name) for name in self._pairs} for _ in range(2))

    def over(self, samples: Samples, progress: Progress | None) -> None:
        """Runs all samples; exact sums only on the first, where they need no more."""
        done = 0
        for feed in samples:
            rows = rows_of(feed)
            wanted = _outputs(self._reference, feed)
            if self._default is not None:
                self._add(self.found, wanted, _outputs(self._default, self._fed(feed)), rows)
            if self._exact is not None:
                self._add(self.exact, wanted, _outputs(self._exact, self._fed(feed)), rows)
            done += rows
            if progress is not None:
                progress("evaluate", done, samples.total)
            if self._sums == "auto" and done >= _TRIED:
                self._decide()
        if self._sums == "auto":
            self._decide()

    def _decide(self) -> None:
        """Leaves exact sums out where they are the default session's."""
        pairs = zip(scores_by_name(self.found), scores_by_name(self.exact), strict=True) if self._exact else ()
        if self._exact is not None and not any(differ(exact.sqnr, found.sqnr) for found, exact in pairs):
            self._exact, self.exact = None, {}

    def _fed(self, feed: Feed) -> Feed:
        return {name: feed[name] for name in self._inputs if name in feed}

    def _add(
        self,
        gathered: Mapping[str, Gathered],
        wanted: Mapping[str, Any],
        got: Mapping[str, Any],
        rows: int,
    ) -> None:
        for name, other in self._pairs.items():
            one, two = wanted[name], got[other]
            if one.shape != two.shape:
                shapes = f"{list(one.shape)}, got {list(two.shape)}"
                raise ModelError(f"{_WHERE}: output {other!r}: expected the shape of the reference {shapes}")
            by_row = one.ndim > 0 and len(one) == rows
            gathered[name].add(*((one, two) if by_row else (one[None], two[None])))


def _session(model: ModelFile) -> Any:
    return ort.inference_session(model, ort.session_options(spinning=False))


def _same_inputs(reference: Any, model: Any) -> list[str]:
    names = [each.name for each in model.get_inputs()]
    missing = [name for name in names if name not in {each.name for each in reference.get_inputs()}]
    if missing:
        raise ModelError(f"{_WHERE}: expected inputs that the reference has too, got {', '.join(map(repr, missing))}")
    return names


def _pairs(reference: Any, model: Any) -> tuple[dict[str, str], tuple[str, ...]]:
    """Returns the outputs of the reference with those of the model that stand for them, and those that have none."""
    wanted, given = ([each for each in session.get_outputs() if _is_numeric(each)] for session in (reference, model))
    names, others = ([each.name for each in outputs] for outputs in (wanted, given))
    pairs = {name: name for name in names if name in others}
    if not pairs and len(names) == len(others):
        pairs = dict(zip(names, others, strict=True))
    if not pairs:
        raise ModelError(
            f"{_WHERE}: expected outputs {', '.join(map(repr, names))}, got {', '.join(map(repr, others))}"
        )
    every = [each.name for session in (reference, model) for each in session.get_outputs()]
    return pairs, tuple(dict.fromkeys(name for name in every if name not in pairs and name not in pairs.values()))


def _is_numeric(output: Any) -> bool:
    return output.type in ort.ARRAY_TYPES and output.type not in ("tensor(string)", "tensor(bool)")


def _outputs(session: Any, feed: Feed) -> dict[str, NDArray[Any]]:
    names: Sequence[str] = [each.name for each in session.get_outputs()]
    return dict(zip(names, ort.run(session, feed), strict=True))
