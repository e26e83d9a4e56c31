"""The verb `checkpoint`: a language model's folder in, a smaller one or a GGUF file out."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from quarkfast.cli import console
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.cli.options import AsJson, Force
from quarkfast.errors import ConfigError, OutputError

_FORMATS = "compressed-tensors, quark, fp8, gptq, awq, safetensors or gguf."


def checkpoint(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A folder of safetensors with config.json.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="The folder to write, or the file for gguf.")
    ],
    preset: Annotated[
        str, typer.Option("-p", "--preset", help="To what: int4_wo_128, int8, fp8, mxfp4, ..., or Q4_0, ... for gguf.")
    ],
    format: Annotated[str, typer.Option("--format", help=f"How it is stored: {_FORMATS}")] = "compressed-tensors",
    group_size: Annotated[
        str | None,
        typer.Option(metavar="N|auto", help="Weights that share a scale; auto: the largest that divides all inputs."),
    ] = None,
    method: Annotated[
        str, typer.Option(help="Range of weights: minmax, percentile, or mse for the least squared error.")
    ] = "minmax",
    include: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A layer to quantize besides, or a glob; repeatable.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A layer to leave, or a glob; repeatable.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; tell the sizes.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep finished shards when cut short; go on with those of such a run.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Read every layer back, not one of each kind.")] = False,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all layers read back to FILE.html or FILE.json."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Quantize the weights of a language model, file to file: for vLLM, SGLang, transformers or llama.cpp."""
    from quarkfast.atomic_files import check_output, save_bytes
    from quarkfast.checkpoint import quantize_checkpoint

    if report is not None:
        if report.suffix.lower() not in (".html", ".json"):
            raise OutputError(f"--report: expected a name that ends in .html or .json, got {report.name!r}")
        check_output(report)
    options: dict[str, Any] = {"group_size": _group_size(group_size), "method": method}
    options |= {"include": include or (), "exclude": exclude or (), "dry_run": dry_run}
    options |= {"resume": resume, "verify": verify, "force": force}
    with console.stages() as progress:
        result = quantize_checkpoint(source, output, preset, format, progress=progress, **options)
    found = {"source": str(source), **result.to_dict()}
    rows = [("source", str(source)), ("output", f"{output}{' (not written)' if dry_run else ''}"), *result.rows()]
    if report is not None:
        text = json.dumps(found, indent=2)
        if report.suffix.lower() == ".html":
            from quarkfast import _version
            from quarkfast.report import render_checkpoint

            text = render_checkpoint(found, rows, _version.version())
        save_bytes(text.encode(), report)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return ExitCode.OK
    console.show_facts(rows if dry_run else [*rows, ("total", f"{result.seconds:.2f} s")])
    if verify and result.verification is not None:
        worst = [(layer.name, f"{layer.sqnr:.2f}") for layer in result.verification.worst]
        console.show_table("Least SQNR of weights", ("layer", "dB"), worst)
    return ExitCode.OK


def _group_size(text: str | None) -> int | str | None:
    """Reads a number or ``auto``.

    Raises:
        ConfigError: If it is something else.
    """
    if text is None or text == "auto":
        return text
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"--group-size: expected a number above 0 or auto, got {text!r}")
    return int(text)
