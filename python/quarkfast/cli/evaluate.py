"""The verb `evaluate`: how close a model, or a folder of results, comes to its reference."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

import quarkfast
from quarkfast.cli import console
from quarkfast.cli.environment import check_environment
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.cli.options import DATA_HELP, ShowImages
from quarkfast.cli.shown_images import show_first_images
from quarkfast.config import OPTIONS
from quarkfast.errors import ConfigError

_COLUMNS = {
    "SQNR": ("sqnr", " dB"),
    "cosine": ("cosine_mean", ""),
    "least cosine": ("cosine_min", ""),
    "L2": ("l2_mean", ""),
    "largest L2": ("l2_max", ""),
    "PSNR": ("psnr_mean", " dB"),
    "least PSNR": ("psnr_min", " dB"),
    "same top-1": ("top1", " %"),
    "top-1 in top-5": ("top5", " %"),
    "SSIM": ("ssim_mean", ""),
    "least SSIM": ("ssim_min", ""),
    "not finite": ("not_finite", ""),
}


_AGAINST = {"float model": "what the reference detects from a score of 0.3 on", "labels": "the labels"}


def evaluate(
    reference: Annotated[
        Path, typer.Argument(metavar="REFERENCE", help="The float model, or a folder of its results.")
    ],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The quantized model, or a folder of its results.")],
    data: Annotated[str | None, typer.Option("--data", metavar="PATH", help=DATA_HELP)] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="How many samples to read; all by default.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Rows of a run; 16 by default.")] = None,
    preprocess: Annotated[str | None, typer.Option(metavar="HOW", help=OPTIONS["preprocess"].help)] = None,
    show: ShowImages = None,
    sums: Annotated[
        str,
        typer.Option(
            help="How the model adds: as the runtime does here, exact, both, or auto: both where they differ."
        ),
    ] = "auto",
    metric: Annotated[
        str | None, typer.Option(metavar="MODULE:FUNCTION", help="A metric of your own, from a session and data.")
    ] = None,
    metric_data: Annotated[str | None, typer.Option(metavar="TEXT", help="What the metric is given.")] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=OUTPUT[INDEX]", help="A part to score apart, e.g. boxes=output[:, :4]; repeatable."),
    ] = None,
    detections: Annotated[
        str | None,
        typer.Option(metavar="LAYOUT", help="Average precision of a detector: yolov5, yolov8 or yolox."),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Boxes in COCO's JSON; by default what REFERENCE detects.")
    ] = None,
    fail_below: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Exit with status 7 where a figure is below, e.g. sqnr=20; repeatable."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Run two models on the same samples, or read two folders of results, and say how close they come."""
    check_environment()
    limits = dict(map(_limit, fail_below or ()))
    with console.warnings_as_lines(), console.stages() as progress:
        if reference.is_dir() or model.is_dir():
            if data is not None or metric is not None:
                raise ConfigError("data: expected two models to run on it, got folders; leave --data and --metric out")
            found = quarkfast.evaluate_folders(reference, model, progress=progress)
        else:
            if data is None:
                raise ConfigError("data: expected samples for two models, got none")
            if show is not None:
                show_first_images(show, reference, data, {"samples": samples, "preprocess": preprocess})
            found = quarkfast.evaluate_models(
                reference, model, data, samples=samples, batch_size=batch_size, preprocess=preprocess, sums=sums,
                metric=metric, metric_data=metric_data, parts=part or (), detections=detections, labels=labels,
                progress=progress,
            )  # fmt: skip
    below = found.below(limits)
    if as_json:
        typer.echo(json.dumps({"reference": str(reference), "model": str(model), **found.to_dict()}, indent=2))
    else:
        show_scores(found)
    for line in below:
        console.show_line(f"quarkfast: {line}", error=True)
    return ExitCode.BELOW if below else ExitCode.OK


def show_scores(found: "quarkfast.Evaluation") -> None:
    """Print the tables, and what there is beside them."""
    for title, scores in (("as the runtime adds here", found.scores), ("exact sums", found.exact)):
        if scores:
            shown = {name: row for name, row in _COLUMNS.items() if any(_cell(each, *row) for each in scores)}
            rows = ([each.output, *(_cell(each, *row) for row in shown.values())] for each in scores)
            count = f"{scores[0].samples} samples"
            console.show_table(f"{count}, {title}" if found.exact else count, ["output", *shown], rows)
    console.show_facts(_facts(found))


def _facts(found: "quarkfast.Evaluation") -> Iterator[tuple[str, str]]:
    if found.metric is not None and found.reference_metric is not None:
        yield "metric", f"{found.metric:.6g}, of the reference {found.reference_metric:.6g}"
    if (seen := found.precision) is not None:
        beside = (
            ""
            if seen.reference_ap is None
            else f"; of the reference {seen.reference_ap:.1f} and {seen.reference_ap50:.1f}"
        )
        yield "AP, AP at 0.5", f"{seen.ap:.1f} and {seen.ap50:.1f} % against {_AGAINST[seen.against]}{beside}"
    for name in found.not_compared:
        yield "not compared", name


def _cell(scores: "quarkfast.Scores", name: str, unit: str) -> str:
    value = getattr(scores, name)
    if value is None or (name == "not_finite" and not value):
        return ""
    if isinstance(value, float) and math.isinf(value):
        return "equal" if value > 0 else "no signal"
    digits = ".2f" if unit else ".6g"
    return f"{value:{digits}}{unit}"


def _limit(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError as error:
        raise ConfigError(f"--fail-below: expected NAME=VALUE such as sqnr=20, got {text!r}") from error
