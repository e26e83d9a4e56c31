"""The verb `compare`: what each tensor of a quantized model lost."""

import json
import math
from pathlib import Path
from typing import Annotated

import typer

import quarkfast
from quarkfast.cli import console
from quarkfast.cli.environment import check_environment
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.cli.options import DATA_HELP
from quarkfast.config import OPTIONS

_COLUMNS = ("tensor", "codes", "own rounding", "all errors", "clipped", "range used", "worst channels")


def compare(
    reference: Annotated[Path, typer.Argument(metavar="FLOAT", help="The float model.")],
    model: Annotated[Path, typer.Argument(metavar="QUANTIZED", help="The quantized model, of any tool.")],
    data: Annotated[str, typer.Option("--data", metavar="PATH", help=DATA_HELP)],
    top: Annotated[int, typer.Option(min=1, help="How many tensors to show, the worst first.")] = 10,
    samples: Annotated[int | None, typer.Option(min=1, help="How many samples to read; all by default.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Rows of a run; chosen by memory by default.")] = None,
    preprocess: Annotated[str | None, typer.Option(metavar="HOW", help=OPTIONS["preprocess"].help)] = None,
    predict: Annotated[
        int, typer.Option(min=0, help="Say of so many what the outputs would gain if they had 16 bits.")
    ] = 0,
    calibration_data: Annotated[
        str | None, typer.Option(metavar="PATH", help="What calibrated QUANTIZED: --predict quantizes anew with it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, of every tensor.")] = False,
) -> int:
    """Run a float model and a quantized one side by side, and say what each tensor lost, the worst first."""
    check_environment()
    with console.warnings_as_lines(), console.stages() as progress:
        found = quarkfast.compare_models(
            reference, model, data, samples=samples, batch_size=batch_size, preprocess=preprocess, predict=predict,
            calibration_data=calibration_data, progress=progress,
        )  # fmt: skip
    if as_json:
        typer.echo(json.dumps({"reference": str(reference), "model": str(model), **found.to_dict()}, indent=2))
        return ExitCode.OK
    shown = found.worst[:top]
    ends = [each for each in found.tensors if each.kind == "output"]
    rounded = len(found.worst)
    title = f"{len(shown)} of {rounded} tensors, those first whose own rounding adds most, and outputs"
    console.show_table(title, _COLUMNS, [_cells(each) for each in (*shown, *ends)], lists=(6,))
    console.show_facts([("samples", str(found.samples)), ("not compared", str(len(found.not_compared)))])
    if found.prediction is not None:
        _show(found.prediction)
    return ExitCode.OK


def _show(found: "quarkfast.Prediction") -> None:
    rows = [("as it is", _decibels(found.now)), *((tensor, _decibels(sqnr)) for tensor, sqnr in found.alone)]
    rows.append(("all of these", _decibels(found.together)))
    rows.append(("all that gain alone", _decibels(found.gaining)))
    console.show_table("Worst output with 16 bits for a tensor", ("tensor", "SQNR"), rows)


def _cells(found: "quarkfast.TensorComparison") -> list[str]:
    return [
        found.tensor,
        found.dtype or found.kind,
        _decibels(found.rounding_sqnr),
        _decibels(found.sqnr),
        _percent(found.clipped),
        _percent(found.used),
        found.channels_told,
    ]


def _decibels(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1f} dB" if math.isfinite(value) else ("exact" if value > 0 else "lost")


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.3g} %"
