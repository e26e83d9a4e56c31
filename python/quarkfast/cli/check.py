"""The verb `check`: whether a quantized model keeps to the rules of a device."""

import json
from pathlib import Path
from typing import Annotated

import typer

import quarkfast
from quarkfast.cli import console
from quarkfast.cli.environment import check_environment
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.wording import counted, counts_by_type


def check(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A quantized ONNX model, of any tool.")],
    target: Annotated[str, typer.Option(help="The device, e.g. ryzenai-xint8, ryzenai-a8w8, ryzenai-bf16.")],
    strict: Annotated[bool, typer.Option("--strict", help="Exit with status 8 for warnings too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Hold a quantized model against every rule of a device: types, scales, shifts, shapes, operators, subgraphs."""
    check_environment()
    found = quarkfast.check_model(model, target)
    if as_json:
        typer.echo(json.dumps({"model": str(model), **found.to_dict()}, indent=2))
    else:
        warnings = len(found.findings) - len(found.errors)
        console.show_facts(
            [
                ("model", str(model)),
                ("target", found.target),
                ("quantized", counts_by_type(found.quantized)),
                *((f"{each.severity}: {each.rule}", _place(each)) for each in found.findings),
                ("found", f"{counted(len(found.errors), 'error')}, {counted(warnings, 'warning')}"),
            ]
        )
    return ExitCode.BROKEN_RULE if found.errors or (strict and found.findings) else ExitCode.OK


def _place(finding: "quarkfast.Finding") -> str:
    return f"node {finding.node!r}: {finding.text}" if finding.node else finding.text
