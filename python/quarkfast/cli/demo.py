"""The verb `demo`: every preset on a model that comes with the package."""

from typing import TYPE_CHECKING

import typer

from quarkfast.cli import console
from quarkfast.cli.environment import check_environment
from quarkfast.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from quarkfast.demo.run import Row


def demo() -> int:
    """Quantize a small trained model with every preset and compare them with the float model.

    The model reads handwritten digits; it and its images are part of the package. Nothing is written to disk but
    temporary files, which are removed.
    """
    from quarkfast.demo.run import FLOAT, run

    check_environment()
    with console.status() as say:
        rows = list(
            run(lambda preset: say("running the float model" if preset == FLOAT else f"quantizing to {preset}"))
        )
    columns = ["preset", "file size", "top-1", "same as float", "logits SQNR", "quantized in"]
    console.show_table("500 handwritten digits that training never saw, exact sums", columns, map(_cells, rows))
    if others := [row for row in rows if row.default_is_others]:
        typer.echo("\nWhere a default session of ONNX Runtime comes to other sums on this processor:")
        for row in others:
            typer.echo(f"{row.preset}: top-1 {row.default_top1:.1f} %, logits SQNR {row.default_sqnr:.1f} dB")
    typer.echo("\nQuantize your own: quarkfast quantize MODEL -p PRESET --calibration-data FILE.npz")
    return ExitCode.OK


def _cells(row: "Row") -> list[str]:
    cells = [row.preset, console.kilobytes(row.size), f"{row.top1:.1f} %"]
    if row.seconds is None:
        return [*cells, "", "", ""]
    return [*cells, f"{row.agreement:.1f} %", f"{row.sqnr:.1f} dB", f"{row.seconds:.2f} s"]
