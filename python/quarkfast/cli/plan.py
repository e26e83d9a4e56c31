"""The verb `plan`: what `quantize` would do, without doing it."""

import inspect
import json
from typing import Annotated, Any

import typer

import quarkfast
from quarkfast.cli import console
from quarkfast.cli.environment import check_environment
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.cli.quantize import chosen_preset, given_options, quantize

# What only matters once there are data and an output.
_LEFT_OUT = ("output", "calibration_data", "calibration", "max_memory", "force", "as_json", "report", "verify")


def plan(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, **given: Any) -> int:
    """Tell what quantize would do to a model, with the same options, without running or writing anything."""
    check_environment()
    preset = chosen_preset(given.pop("preset"), given.pop("config"))
    found = quarkfast.plan(given.pop("model"), preset, **given_options(given))
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
    else:
        console.show_facts(found.rows())
    return ExitCode.OK


# The options are those of `quantize`, each written down once.
_own = inspect.signature(plan).parameters["as_json"]
_shared = [each for name, each in inspect.signature(quantize).parameters.items() if name not in _LEFT_OUT]
plan.__signature__ = inspect.Signature([*_shared, _own], return_annotation=int)  # type: ignore[attr-defined]
plan.__annotations__ = {each.name: each.annotation for each in [*_shared, _own]} | {"return": int}
