"""The verb `merge-calibration`: statistics of one model from several runs, added up."""

import json
from pathlib import Path
from typing import Annotated

import typer

import quarkfast
from quarkfast.cli import console
from quarkfast.cli.calibrate import describe, rows
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.cli.options import AsJson, Force
from quarkfast.errors import OutputError


def merge_calibration(
    parts: Annotated[list[Path], typer.Argument(metavar="FILE...", help="What 'quarkfast calibrate' wrote.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write the sum.")],
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Add up calibrations of one model, from other processes, machines or days.

    The result is what one run over all the samples would have given, in whatever order the files are named.
    """
    if output.is_file() and not force:
        raise OutputError(f"output: expected a new file, got {str(output)!r}, which exists; --force replaces it")
    facts = describe(quarkfast.merge_calibrations(parts, output)) | {"output": str(output)}
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        console.show_facts(rows(facts))
    return ExitCode.OK
