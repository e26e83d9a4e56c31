"""The verb `plan`: what `quantize` would do, without doing it."""

import json
from typing import Annotated, Any

import typer

import quarkfast
from quarkfast.cli import console
from quarkfast.cli.environment import check_environment
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.cli.options import AsJson, ConfigFile, ModelPath, PresetName, as_given, chosen_preset, with_options
from quarkfast.config import thresholds


@with_options()
def plan(
    model: ModelPath,
    preset: PresetName = "A8W8",
    config: ConfigFile = None,
    every: Annotated[bool, typer.Option("--all", metavar="", help="Show each tensor and node, not groups.")] = False,
    show_policy: Annotated[
        bool, typer.Option("--policy", metavar="", help="Show the thresholds that decide about accuracy instead.")
    ] = False,
    as_json: AsJson = False,
    **options: Any,
) -> int:
    """Tell what quantize would do to a model, with the same options, without running or writing anything."""
    check_environment()
    found = quarkfast.plan(model, chosen_preset(preset, config), **as_given(options))
    rows = thresholds(found.scheme.policy)
    if show_policy and as_json:
        typer.echo(json.dumps([row._asdict() for row in rows], indent=2))
    elif show_policy:
        console.show_facts((row.name, f"{row.measure()}: {row.purpose}") for row in rows)
    elif as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
    else:
        console.show_facts(found.rows(every=every))
    return ExitCode.OK
