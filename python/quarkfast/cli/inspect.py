"""The verb `inspect`: what is in a model."""

import json
from pathlib import Path
from typing import Annotated

import typer

import quarkfast
from quarkfast.cli import console
from quarkfast.cli.environment import check_environment
from quarkfast.cli.exit_codes import ExitCode


def inspect(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX model, quantized by whatever tool, or not.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Tell what is in a model: types, kinds of scales, operators, sizes, and who made it."""
    check_environment()
    found = quarkfast.inspect_model(model)
    if as_json:
        typer.echo(json.dumps({"model": str(model), **found.to_dict()}, indent=2))
    else:
        console.show_facts([("model", str(model)), *found.rows()])
    return ExitCode.OK
