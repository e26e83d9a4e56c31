"""The verb `quantize`: one model file in, one out."""

import json
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

import quarkfast
from quarkfast.cli import console
from quarkfast.cli.environment import check_environment
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.cli.options import (
    AsJson,
    ConfigFile,
    DataPath,
    Force,
    ModelPath,
    PresetName,
    as_given,
    chosen_preset,
    with_options,
)
from quarkfast.errors import CalibrationError, ModelError, OutputError, UnsupportedError

_VERIFIED = 8  # samples that --verify and the page run


Output = Annotated[Path | None, typer.Option("-o", "--output", help="Where to write; MODEL_PRESET.onnx by default.")]
CalibrationFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="What 'calibrate' wrote, instead of samples.")
]
Verify = Annotated[
    bool,
    typer.Option("--verify", metavar="", help="Tell how ONNX Runtime runs the result."),
]


@with_options()
def quantize(
    model: ModelPath,
    output: Output = None,
    preset: PresetName = "A8W8",
    config: ConfigFile = None,
    calibration_data: DataPath = None,
    calibration: CalibrationFile = None,
    max_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", hidden=True, help="Most memory to calibrate in, such as 2GB.")
    ] = None,
    min_sqnr: Annotated[float | None, typer.Option(metavar="DB", help="What the worst output shall have.")] = None,
    max_drop: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="How far --metric may fall below the float model's.")
    ] = None,
    metric: Annotated[str | None, typer.Option(metavar="MOD:FUNC", help="From a session and data to a number.")] = None,
    metric_data: Annotated[
        str | None,
        typer.Option(metavar="TEXT", hidden=True, help="What --metric is given; the samples held apart by default."),
    ] = None,
    max_above_8_bits: Annotated[
        float | None,
        typer.Option(
            metavar="PART",
            hidden=True,
            help="The most that --min-sqnr and --max-drop widen, from 0 to 1; a quarter.",
        ),
    ] = None,
    force: Force = False,
    verify: Verify = False,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page to FILE.html, or FILE.json."),
    ] = None,
    as_json: AsJson = False,
    **options: Any,
) -> int:
    """Quantize the float ONNX model MODEL; the preset decides what is not given."""
    quality = {"min_sqnr": min_sqnr, "max_drop": max_drop, "metric": metric, "metric_data": metric_data}
    quality["max_above_8_bits"] = max_above_8_bits
    given = as_given({"calibration": calibration, "max_memory": max_memory, **quality, **options})
    check_environment()
    chosen = chosen_preset(preset, config)
    path = output or beside(model, f"{preset.lower() if config is None else config.stem}.onnx")
    if not force and _exists(path):
        raise OutputError(f"output: expected a new file, got {str(path)!r}, which exists; --force replaces it")
    _check_report(report)
    start = time.perf_counter()
    page = report is not None and report.suffix.lower() == ".html"
    if page:
        given["histograms"] = True
    with _put_back_unless_verified(path) if verify else nullcontext():
        result = _quantize(model, path, chosen, calibration_data, given)
        seconds = time.perf_counter() - start
        data = calibration_data if result.summary.quantized else None  # which an unchanged copy need not fit
        found = _verified(path, model, data, given) if verify else None
    more: dict[str, Any] = {"model": str(model), "output": str(path), "total_seconds": seconds}
    if found is not None:
        more["verification"] = found.to_dict()
    if report is not None:
        measured = _measured(path, model, data, given) if page else {}
        result.write_report(report, more=more, **measured)
    if as_json:
        typer.echo(json.dumps({**more, **result.summary.to_dict()}, indent=2))
        return ExitCode.OK
    rows = [*result.summary.rows(), *(found.rows() if found is not None else ())]
    console.show_facts([("model", str(model)), ("output", str(path)), *rows, ("total", f"{seconds:.2f} s")])
    return ExitCode.OK


@contextmanager
def _put_back_unless_verified(path: Path) -> Iterator[None]:
    """Leaves the output as it was where it cannot be written, or does not run as it should."""
    from quarkfast.atomic_files import check_output, put_back_on_failure
    from quarkfast.graph.external import data_file

    with put_back_on_failure(check_output(path), data_file(path)):
        yield


def _measured(path: Path, model: Path, data: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Compare tensors on the first samples and time both models, for the page; what is impossible is told there."""
    if data is None or path.samefile(model):
        return {}
    from quarkfast.evaluate.tensor_comparison import Comparison

    found: dict[str, Any] = {}
    options = {name: given[name] for name in ("preprocess",) if name in given}
    with console.warnings_as_lines(), console.stages() as progress:
        warnings.simplefilter("ignore", UserWarning)  # calibration has shown them
        try:
            rows = _first_rows(model, given)
            found["compared"] = quarkfast.compare_models(
                model, path, data, samples=rows, batch_size=given.get("batch_size"), progress=progress, **options
            )
            found["latency"] = quarkfast.measure_latency(model, path, data, **options)
        except (CalibrationError, ModelError, UnsupportedError) as error:
            found.setdefault("compared", Comparison((), 0, (str(error),)))
    return found


def _first_rows(model: Path, given: Mapping[str, Any]) -> int:
    """Return how many samples are run to look at the result."""
    from quarkfast.calibration.data import model_inputs
    from quarkfast.calibration.data.inputs import batch_of
    from quarkfast.graph.load import load_model

    batch = batch_of(model_inputs(load_model(model))) or 1
    most: int = min(_VERIFIED, given.get("samples", _VERIFIED))
    return max(batch, most // batch * batch)


def _verified(
    path: Path, model: Path, calibration_data: str | None, given: Mapping[str, Any]
) -> "quarkfast.Verification":
    """Verify what was written, on the first samples and against the float model where these still are."""
    if calibration_data is None or path.samefile(model):
        return quarkfast.verify(path)
    from quarkfast.calibration.data import model_inputs, open_data
    from quarkfast.graph.load import load_model
    from quarkfast.pipeline.single_rows import cut_to_rows

    loaded, rows = load_model(model), _first_rows(model, given)
    options = {name: given[name] for name in ("batch_size", "preprocess") if name in given}
    with warnings.catch_warnings():  # calibration has shown them
        warnings.simplefilter("ignore", UserWarning)
        opened = open_data(calibration_data, model_inputs(loaded), rows, **options)
        if "batch_size" not in options:
            cut_to_rows(opened, loaded, rows)
        feeds = list(opened)
    return quarkfast.verify(path, feeds, model)


def beside(model: Path, ending: str) -> Path:
    """Return the path of MODEL_ENDING in the model's folder."""
    if not model.name:
        raise ModelError(f"{model}: expected an ONNX file, got a directory")
    return model.with_name(f"{model.stem}_{ending}")


def _check_report(report: Path | None) -> None:
    """Make sure that the report can be written before any work is done."""
    if report is not None:
        from quarkfast.search.quantize import check_report

        check_report(report)


def _exists(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # for example a name that is too long, which the writing reports
        return False


def _quantize(
    model: Path, path: Path, preset: str | quarkfast.Scheme, calibration_data: str | None, options: dict[str, Any]
) -> "quarkfast.QuantizedModel":
    with console.warnings_as_lines(), console.stages() as progress:
        return quarkfast.quantize(model, path, preset, calibration_data, progress=progress, **options)
