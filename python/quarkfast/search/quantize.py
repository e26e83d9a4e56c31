"""Quantization: one model in, one out, by the recipe of its preset and the levers that are wanted."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from quarkfast.atomic_files import check_output, save_bytes
from quarkfast.config import Scheme
from quarkfast.errors import OutputError, printable
from quarkfast.pipeline.garbage import only_new_objects_collected
from quarkfast.pipeline.progress import Clock, Progress
from quarkfast.pipeline.resolve import resolve
from quarkfast.pipeline.summary import Summary

if TYPE_CHECKING:
    import onnx

    from quarkfast.calibration.data import CalibrationData
    from quarkfast.evaluate.latency import Latency
    from quarkfast.evaluate.tensor_comparison import Comparison
    from quarkfast.graph.load import ModelSource
    from quarkfast.pipeline.typed_options import QuantizeOptions
    from quarkfast.pipeline.user_metric import Metric
    from quarkfast.statistics import Calibration

__all__ = ["QuantizedModel", "check_report", "quantize"]

_REPORTS = (".html", ".json")


@dataclass(frozen=True, slots=True)
class QuantizedModel:
    """A quantized model and the report about it.

    Attributes:
        model_bytes: The serialized ONNX model, exactly what a file would hold.
        summary: What was done.
        path: The file that was written, or None.
    """

    model_bytes: bytes
    summary: Summary
    path: Path | None = None

    def __repr__(self) -> str:
        """Returns one short paragraph; `summary` has the rest."""
        place = "in memory" if self.path is None else f"at {str(self.path)!r}"
        return printable(f"QuantizedModel {place}: {self.summary.paragraph()}")

    def _repr_html_(self) -> str:
        """Returns what notebooks show: the rows of the summary."""
        from quarkfast.report.markup import element

        rows = [element("tr", element("th", key), element("td", text)) for key, text in self.summary.rows()]
        return element("table", *rows)

    @property
    def proto(self) -> onnx.ModelProto:
        """The model as a protobuf, made anew for each call."""
        import onnx

        proto = onnx.ModelProto()
        proto.ParseFromString(self.model_bytes)
        return proto

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the model to `path`, whole or not at all, and returns the path.

        Raises:
            ModelError: If the folder does not exist or the file cannot be written.
        """
        output = check_output(path)
        save_bytes(self.model_bytes, output)
        return output

    def write_report(
        self,
        path: str | os.PathLike[str],
        compared: Comparison | None = None,
        latency: Latency | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> Path:
        """Writes one self-contained page about the quantization, whole or not at all (``docs/report.md``).

        Args:
            path: Where to write it: HTML, or with the ending ``.json`` the plain data of the summary.
            compared: What :func:`quarkfast.compare_models` found.
            latency: What :func:`quarkfast.measure_latency` found.
            more: What to show beside the summary, under the names of the JSON report: ``model``, ``output``,
                ``total_seconds``, ``verification``.

        Returns:
            The path.

        Raises:
            OutputError: If the ending is another, the folder does not exist or the file cannot be written.

        Example:
            >>> import tempfile, quarkfast
            >>> from quarkfast.demo.data import MODEL, load_images
            >>> result = quarkfast.quantize(MODEL, calibration_data=load_images().calibration)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     result.write_report(f"{folder}/report.html").read_text(encoding="utf-8")[:15]
            '<!doctype html>'
        """
        output = check_report(path)
        found: dict[str, Any] = {} if self.path is None else {"output": str(self.path)}
        found |= {} if latency is None else {"latency": latency.to_dict()}
        found |= more or {}
        if output.suffix.lower() == ".json":
            text = json.dumps({**found, **self.summary.to_dict()}, indent=2) + "\n"
        else:
            from quarkfast.pipeline.report_content import report_content
            from quarkfast.report import render_page

            text = render_page(report_content(self.model_bytes, self.summary, found, compared))
        save_bytes(text.encode(), output)
        return output


def check_report(path: str | os.PathLike[str]) -> Path:
    """Returns the path of a report after making sure that it can be written there, before any work is done.

    Raises:
        OutputError: If the ending is neither ``.html`` nor ``.json``, or no file can be written there.
    """
    output = Path(path)
    if output.suffix.lower() not in _REPORTS:
        raise OutputError(f"report: expected a file name that ends in {' or '.join(_REPORTS)}, got {str(output)!r}")
    return check_output(output)


def quantize(
    model: ModelSource,
    output: str | os.PathLike[str] | None = None,
    preset: str | Scheme = "A8W8",
    calibration_data: CalibrationData | None = None,
    *,
    calibration: Calibration | str | os.PathLike[str] | None = None,
    max_memory: int | str | None = None,
    min_sqnr: float | None = None,
    max_drop: float | None = None,
    metric: Metric | str | None = None,
    metric_data: Any = None,
    max_above_8_bits: float | None = None,
    progress: Progress | None = None,
    histograms: bool = False,
    **options: Unpack[QuantizeOptions],
) -> QuantizedModel:
    """Quantizes an ONNX model.

    Args:
        model: Path of an ONNX file, an ``onnx.ModelProto`` or an ``onnx_ir.Model``; it is not changed.
        output: Where to write the result. None writes nothing. May be the input's path.
        preset: Name of a row of :data:`quarkfast.PRESETS`, or a :class:`quarkfast.Scheme`.
        calibration_data: Samples, needed by presets whose activations have scales: an .npz or .npy file, an array or a
            dict of arrays (first axis: samples), a folder of files or images, an iterable of feeds, a reader with
            ``get_next``, or ``"random"``; see ``docs/calibration.md``. DYNAMIC and INT8_WO can do without, and are
            better with them.
        calibration: What :func:`quarkfast.calibrate` returned or wrote for this model, instead of samples; or the path
            of a table of ONNX Runtime or Quark. The model is not run.
        max_memory: Most memory that the process may hold while it calibrates, in bytes or as text such as ``"2GB"``.
        min_sqnr: Ratio of signal to quantization noise in dB that the worst output shall have on samples held apart
            (``docs/quality.md``). Where it cannot be met, the summary says so.
        max_drop: How far `metric` may fall below that of the float model, in its own unit; likewise.
        metric: A function, or ``"module:function"``, from an ``onnxruntime.InferenceSession`` with exact sums and
            `metric_data` to a number, of which more is better.
        metric_data: What `metric` is given as it stands; None for the feeds that are held apart.
        max_above_8_bits: The most of the bytes of activations, and of weights, to which `min_sqnr` and `max_drop` give
            more than 8 bits, with presets of 16-bit activations more than 16, from 0 to 1; None for a quarter.
        progress: Called as stages begin and samples are read: stage, samples done, samples in all or None.
        histograms: Whether a histogram of each activation is gathered for :meth:`QuantizedModel.write_report` also
            where no method reads it. The model is the same.
        **options: Rows of :data:`quarkfast.OPTIONS` or Quark's keys for them, such as ``per_channel=True``; ``target``
            is the name of a row of :data:`quarkfast.TARGETS`, or a :class:`quarkfast.Target` of one's own.

    Returns:
        The model and its summary, whether or not it was written. The same arguments give the same bytes.

    Raises:
        ConfigError: If the preset or an option does not exist or does not fit.
        ModelError: If the model cannot be read or the result cannot be written. Nothing is left behind.
        CalibrationError: If the data is missing, empty or does not fit the model's inputs, or the calibration is of
            another model.
        UnsupportedError: If this version, onnx or onnxruntime cannot do it.

    Warns:
        UserWarning: If nothing in the model can be quantized; the result is an unchanged copy.

    Example:
        >>> import numpy as np, onnx, quarkfast
        >>> graph = onnx.parser.parse_graph("g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }")
        >>> proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
        >>> result = quarkfast.quantize(proto, calibration_data=np.ones((8, 4), np.float32))
        >>> [node.op_type for node in result.proto.graph.node][:2]
        ['QuantizeLinear', 'DequantizeLinear']
    """
    resolve(preset, options)
    clock = Clock(progress)
    with clock.stage("import"):  # onnx, onnx_ir and all that needs them, after mistakes in arguments are found
        from quarkfast.search.job import Job
        from quarkfast.search.levers import LEVERS, goal_of_job
        from quarkfast.search.search import Search
    path = None if output is None else check_output(output)
    job = Job(model, path, preset, options, calibration_data, calibration, max_memory, clock, histograms)
    goal = goal_of_job(job, min_sqnr, max_drop, metric, metric_data, max_above_8_bits)
    with only_new_objects_collected():  # before the model is loaded, so that what is replaced of it is collected
        made = Search(job, goal).run(LEVERS)
    return QuantizedModel(made.data, made.summary, path)
