"""Two models on the same samples, output by output."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.calibration.data import CalibrationData, Feed, ModelInput, Samples, model_inputs, open_data
from quarkfast.calibration.data.folders import open_folder
from quarkfast.calibration.data.inputs import rows_of
from quarkfast.errors import ConfigError, ModelError
from quarkfast.evaluate.accuracy import differ
from quarkfast.evaluate.coco_labels import read_labels
from quarkfast.evaluate.detections import Detections, average_precision, check_layout, read_detections
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.scores import Gathered, scores_by_name
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.graph.save import file_or_bytes
from quarkfast.pipeline.evaluation import Evaluation, Precision
from quarkfast.pipeline.output_cutter import OutputCutter, read_part
from quarkfast.pipeline.single_rows import cut_to_rows
from quarkfast.pipeline.user_metric import Metric, measure_metric, read_metric

__all__ = ["SUMS", "evaluate_models"]

SUMS = ("auto", "runtime", "exact", "both")
"""How a quantized model is run."""

_WHERE = "evaluate"
# Samples on which it is decided whether exact sums differ from those of a default session.
_TRIED = 16
_BATCH = 16
# Score from which on what the float model detects counts as true.
_SURE = 0.3

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
    parts: Sequence[str] = (),
    detections: str | None = None,
    labels: str | os.PathLike[str] | None = None,
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
        parts: Parts of outputs to score by themselves, each ``"name=output[index]"`` with an index of NumPy behind the
            samples, such as ``"boxes=output[:, :4]"``. An output without any whose scores (of Sigmoid or Softmax) are
            joined with other numbers, as boxes, is cut into both.
        detections: Layout of a detector's first output, one of ``yolov5``, ``yolov8`` and ``yolox``: average precision
            is measured, against what the float model detects with a score of 0.3 or more. Needs pycocotools.
        labels: A JSON file in COCO's form with the boxes of the images of `data`, a folder: average precision is that
            of both models against these.
        progress: Called as samples are done: stage, samples done, samples in all or None.

    Returns:
        Scores of every output.

    Raises:
        ConfigError: If `sums`, the metric, a part or the layout is none.
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
    if labels is not None and (detections is None or not isinstance(data, str | os.PathLike)):
        raise ConfigError("labels: expected detections, and a folder of images as data, got others")
    if detections is not None:
        check_layout(detections)
    function = None if metric is None else read_metric(metric)
    loaded = load_model(reference)
    load_model(model)  # whose files are looked for in its own folder alone
    opened = open_data(data, model_inputs(loaded), samples, batch_size, preprocess)
    if batch_size is None:
        cut_to_rows(opened, loaded, _BATCH)
    inputs = model_inputs(loaded)
    cutter = OutputCutter(loaded, list(map(read_part, parts)))
    del loaded
    if function is not None and metric_data is None:
        opened.keep()
    sources = file_or_bytes(reference), file_or_bytes(model)
    run = _Run(*sources, sums, cutter, _Detector(detections))
    run.over(opened, progress)
    figures: dict[str, Any] = {"metric": None, "reference_metric": None}
    if function is not None:
        given = list(opened) if metric_data is None else metric_data
        for name, source in zip(("reference_metric", "metric"), sources, strict=True):
            figures[name] = measure_metric(function, exact_session(source), given)
    precision = run.detector.precision(
        _labels(labels, data, inputs, samples, preprocess, run.detector), bool(run.exact)
    )
    scores = scores_by_name(run.found), scores_by_name(run.exact)
    return Evaluation(*scores, not_compared=run.left, precision=precision, **figures)


def _labels(
    labels: str | os.PathLike[str] | None,
    data: CalibrationData,
    inputs: Sequence[ModelInput],
    samples: int | None,
    preprocess: str | Mapping[str, Any] | None,
    detector: _Detector,
) -> list[Detections] | None:
    """Returns the boxes of the images in the order in which they were run; None without labels."""
    if labels is None:
        return None
    folder = open_folder(Path(str(data)), inputs, preprocess, samples)
    if folder.preprocess is None:
        raise ConfigError("labels: expected a folder of images as data, got arrays")
    images = [files[""] for files in folder.files]
    placed = partial(folder.preprocess.placed, size=detector.size)
    return read_labels(Path(labels), images, placed)


class _Detector:
    """What both models detect, image by image."""

    def __init__(self, layout: str | None) -> None:
        """Detects nothing without a layout."""
        self.size = (0, 0)
        self._layout = layout
        self._found: dict[str, list[Detections]] = {"reference": [], "runtime": [], "exact": []}

    def add(self, name: str, feed: Feed, outputs: Mapping[str, Any]) -> None:
        """Reads the first output of a batch."""
        if self._layout is not None:
            image = next((each for each in feed.values() if each.ndim == 4), None)
            if image is None:
                raise ModelError("detections: expected an input of images, got none")
            down, across = image.shape[2:] if image.shape[1] in (1, 3) else image.shape[1:3]
            self.size = int(down), int(across)
            self._found[name] += read_detections(next(iter(outputs.values())), self._layout, self.size)

    def precision(self, labels: Sequence[Detections] | None, exact: bool) -> Precision | None:
        """Returns the average precision; None without a layout."""
        if self._layout is None:
            return None
        found, reference = (
            self._found["exact" if exact else "runtime"] or self._found["exact"],
            self._found["reference"],
        )
        if labels is None:
            return Precision("float model", *average_precision(found, [each.above(_SURE) for each in reference]))
        return Precision("labels", *average_precision(found, labels), *average_precision(reference, labels))


class _Run:
    """The sessions of both models, and what their outputs have in common so far."""

    def __init__(
        self, reference: ModelFile, model: ModelFile, sums: str, cutter: OutputCutter, detector: _Detector
    ) -> None:
        """Opens the sessions that are needed from the start."""
        self.detector, self._cutter = detector, cutter
        self._sums = sums
        self._reference = _session(reference)
        self._default = None if sums == "exact" else _session(model)
        self._exact = None if sums == "runtime" else exact_session(model)
        either = self._default or self._exact
        self._inputs = _same_inputs(self._reference, either)
        self._pairs, self.left = _pairs(self._reference, either)
        self.found, self.exact = dict[str, Gathered](), dict[str, Gathered]()

    def over(self, samples: Samples, progress: Progress | None) -> None:
        """Runs all samples; exact sums only on the first, where they need no more."""
        done = 0
        for feed in samples:
            rows = rows_of(feed)
            wanted = _outputs(self._reference, feed)
            self.detector.add("reference", feed, wanted)
            for kind, session, gathered in (
                ("runtime", self._default, self.found),
                ("exact", self._exact, self.exact),
            ):
                if session is not None:
                    got = _outputs(session, self._fed(feed))
                    self.detector.add(kind, feed, got)
                    self._add(gathered, feed, wanted, got, rows)
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
        gathered: dict[str, Gathered],
        feed: Feed,
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
            one, two = (one, two) if by_row else (one[None], two[None])
            gathered.setdefault(name, Gathered(name)).add(one, two)
            for label, cut in self._cutter.parts(name, feed, wanted):
                gathered.setdefault(label, Gathered(label)).add(cut(one), cut(two))


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
