"""The verb `quantize`: one model file in, one out."""

import json
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import quarkfast
from quarkfast.cli import console
from quarkfast.cli.environment import check_environment
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.config import Scheme, load_config
from quarkfast.errors import ConfigError, ModelError, OutputError

_OF_THE_VERB = ("model", "output", "preset", "config", "calibration_data", "force", "as_json", "report", "verify")
_VERIFIED = 8  # samples that --verify runs, where the model does not fix its batch


def quantize(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The float ONNX model.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write; MODEL_PRESET.onnx beside MODEL by default.")
    ] = None,
    preset: Annotated[str, typer.Option("-p", "--preset", help="What to quantize to, e.g. A8W8, U8S8, BF16.")] = "A8W8",
    calibration_data: Annotated[
        str | None,
        typer.Option(
            "--calibration-data",
            metavar="PATH",
            help="Samples: .npz by input name, .npy for one input, a folder of such or of images, or 'random'.",
        ),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What 'quarkfast calibrate' wrote for MODEL, instead of samples."),
    ] = None,
    max_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Most memory to calibrate in, such as 2GB.")
    ] = None,
    samples: Annotated[int | None, typer.Option(help="How many samples to read; all by default.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples in one calibration run.")] = None,
    preprocess: Annotated[
        str | None, typer.Option(help="How image files become inputs: imagenet, cifar, yolo or none.")
    ] = None,
    activation_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Type of activations, e.g. int16, bfloat16, mx9.")
    ] = None,
    weight_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Type of weights, e.g. int4, uint8, mxfp4_e2m1.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="How ranges of activations are found: minmax, moving_average, nonoverflow, percentile, "
            "layerwise_percentile, entropy, distribution, minmse or auto.",
        ),
    ] = None,
    weight_method: Annotated[
        str | None, typer.Option(metavar="METHOD", help="How ranges of weights are found; the same names.")
    ] = None,
    moving_average: Annotated[bool | None, typer.Option(help="Average the extremes of runs, with minmax.")] = None,
    percentile: Annotated[float | None, typer.Option(help="Percent of the values to keep, with percentile.")] = None,
    percentiles: Annotated[
        list[float] | None,
        typer.Option(metavar="PERCENT", help="What layerwise_percentile chooses from; repeatable."),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="What layerwise_percentile chooses by: mae or mse.")] = None,
    scenario: Annotated[
        str | None, typer.Option(help="What distribution reads: same (the values) or p3 (their cube roots).")
    ] = None,
    bins: Annotated[int | None, typer.Option(help="With entropy: onnxruntime's rule, with so many bins.")] = None,
    levels: Annotated[int | None, typer.Option(help="Groups of values, with entropy.")] = None,
    range_symmetric: Annotated[
        bool | None, typer.Option(help="Whether ranges mirror around zero; as codes do by default.")
    ] = None,
    per_channel: Annotated[
        bool | None, typer.Option("--per-channel/--per-tensor", help="One weight scale for each output channel.")
    ] = None,
    group_size: Annotated[
        int | None, typer.Option(help="Weights that share a scale, for presets of weights alone: 16 to 256.")
    ] = None,
    activation_symmetric: Annotated[
        bool | None, typer.Option(help="Whether the range of activations is centred on zero.")
    ] = None,
    weight_symmetric: Annotated[
        bool | None, typer.Option(help="Whether the range of weights is centred on zero.")
    ] = None,
    bf16_qdq_to_cast: Annotated[
        bool | None, typer.Option(help="Write floats of 8 and 16 bits as pairs of Cast, without custom operators.")
    ] = None,
    activation_scaled: Annotated[bool | None, typer.Option(help="Give activations of 16-bit floats a scale.")] = None,
    weight_scaled: Annotated[bool | None, typer.Option(help="Give weights of 16-bit floats a scale.")] = None,
    reduce_range: Annotated[bool | None, typer.Option(help="Use half of the codes of integer weights.")] = None,
    bf16_with_clip: Annotated[
        bool | None, typer.Option(help="Keep activations that become bfloat16 finite by a Clip.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="The device to place for, e.g. ort-cpu; the preset's by default.")
    ] = None,
    bias: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="What becomes of biases: int32, weight (treated like one) or float."),
    ] = None,
    keep_float_weights: Annotated[
        bool | None, typer.Option(help="Keep weights in float32 with a Q/DQ pair behind them.")
    ] = None,
    packed_weights: Annotated[
        bool | None, typer.Option(help="Store weights of block formats in the bits that the format promises.")
    ] = None,
    force_pass_through: Annotated[
        bool | None, typer.Option(help="Quantize data movement (Reshape, MaxPool) also where its input is float.")
    ] = None,
    equalize: Annotated[
        bool | None, typer.Option(help="Scale channels between layers first, so that weights need fewer bits.")
    ] = None,
    portable: Annotated[
        bool | None, typer.Option(help="For CPUs: let weights give way where 16-bit sums saturate without VNNI.")
    ] = None,
    op_types: Annotated[
        list[str] | None, typer.Option(metavar="TYPE", help="Quantize only operators of this type; repeatable.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE", help="Quantize only nodes of this name, glob or ^regular expression; repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE", help="Leave nodes of this name, glob or ^regular expression in float; repeatable."
        ),
    ] = None,
    exclude_op_types: Annotated[
        list[str] | None, typer.Option(metavar="TYPE", help="Leave operators of this type in float; repeatable.")
    ] = None,
    layers: Annotated[
        str | None, typer.Option(metavar="JSON", help="What single layers have of their own: a list of objects.")
    ] = None,
    tensors: Annotated[
        str | None, typer.Option(metavar="JSON", help="What single tensors have of their own: an object by name.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON or YAML: a preset's name and options, or a scheme; instead of -p."),
    ] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing output.")] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Open the result in ONNX Runtime; tell what computes on integers and how exactly.",
        ),
    ] = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the summary to this JSON file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> int:
    """Quantize an ONNX model.

    Options that are not given have the preset's values.
    """
    given = given_options(locals())
    check_environment()
    chosen = chosen_preset(preset, config)
    path = output or beside(model, f"{preset.lower() if config is None else config.stem}.onnx")
    if not force and _exists(path):
        raise OutputError(f"output: expected a new file, got {str(path)!r}, which exists; --force replaces it")
    _check_report(report)
    start = time.perf_counter()
    result = _quantize(model, path, chosen, calibration_data, given)
    seconds = time.perf_counter() - start
    data = calibration_data if result.summary.quantized else None  # which an unchanged copy need not fit
    found = _verified(path, model, data, given) if verify else None
    document = {"model": str(model), "output": str(path), "total_seconds": seconds, **result.summary.to_dict()}
    if found is not None:
        document["verification"] = found.to_dict()
    _write_report(report, document)
    if as_json:
        typer.echo(json.dumps(document, indent=2))
        return ExitCode.OK
    rows = [*result.summary.rows(), *(found.rows() if found is not None else ())]
    console.show_facts([("model", str(model)), ("output", str(path)), *rows, ("total", f"{seconds:.2f} s")])
    return ExitCode.OK


def _verified(
    path: Path, model: Path, calibration_data: str | None, given: Mapping[str, Any]
) -> "quarkfast.Verification":
    """Verify what was written, on the first samples and against the float model where these still are."""
    if calibration_data is None or path.samefile(model):
        return quarkfast.verify(path)
    from quarkfast.calibration.data import model_inputs, open_data
    from quarkfast.calibration.data.inputs import batch_of, may_rebatch
    from quarkfast.graph.load import load_model

    inputs = model_inputs(load_model(model))
    rows = batch_of(inputs) or min(_VERIFIED, given.get("samples", _VERIFIED))
    options: dict[str, Any] = {"batch_size": rows} if may_rebatch(inputs) else {}
    options |= {name: given[name] for name in ("batch_size", "preprocess") if name in given}
    with warnings.catch_warnings():  # calibration has told of them
        warnings.simplefilter("ignore", UserWarning)
        feeds = list(open_data(calibration_data, inputs, rows, **options))
    return quarkfast.verify(path, feeds, model)


def beside(model: Path, ending: str) -> Path:
    """Return the path of MODEL_ENDING in the model's folder."""
    if not model.name:
        raise ModelError(f"{model}: expected an ONNX file, got a directory")
    return model.with_name(f"{model.stem}_{ending}")


def _check_report(report: Path | None) -> None:
    """Make sure that the report can be written before any work is done."""
    if report is not None:
        from quarkfast.atomic_files import check_output

        check_output(report)


def _write_report(report: Path | None, document: Mapping[str, Any]) -> None:
    if report is not None:
        from quarkfast.atomic_files import save_bytes

        save_bytes((json.dumps(document, indent=2) + "\n").encode(), report)


def _exists(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, for example: writing tells it
        return False


def given_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Pick the options of the configuration, and what else `quarkfast.quantize` knows by name, that were given."""
    given = {name: value for name, value in values.items() if name not in _OF_THE_VERB and value not in (None, [])}
    return given | {name: _json(f"--{name}", given[name]) for name in ("layers", "tensors") if name in given}


def chosen_preset(preset: str, config: Path | None) -> str | Scheme:
    """Take the configuration file where there is one, otherwise the preset."""
    return preset if config is None else load_config(config)


def _json(option: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{option}: expected JSON, got {error}") from error


def _quantize(
    model: Path, path: Path, preset: str | quarkfast.Scheme, calibration_data: str | None, options: dict[str, Any]
) -> "quarkfast.QuantizedModel":
    with console.warnings_as_lines(), console.stages() as progress:
        return quarkfast.quantize(model, path, preset, calibration_data, progress=progress, **options)
