"""The options of the verbs: those of the configuration come from its table, those that verbs share stand here once."""

import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from quarkfast.config import GROUPS, OPTIONS, PRESETS, Option, Scheme, load_config
from quarkfast.errors import ConfigError
from quarkfast.ranges.registry import METHODS

__all__ = [
    "DATA_HELP",
    "AsJson",
    "ConfigFile",
    "DataPath",
    "Force",
    "ModelPath",
    "PresetName",
    "ShowImages",
    "as_given",
    "chosen_preset",
    "is_json",
    "with_options",
]

# Set where a shell asks for completions, which are of all options.
_COMPLETING = "_QUARKFAST_COMPLETE"

# What `--help` shows of the configuration; `--help-all` shows the rest too.
_EVERYDAY = frozenset({"samples", "preprocess", "target", "exclude", "exclude_op_types"})


def _targets() -> list[str]:
    from quarkfast.targets import TARGETS

    return list(TARGETS)


def _preprocesses() -> list[str]:
    from quarkfast.calibration.data.images import PREPROCESSES

    return list(PREPROCESSES)


# What a shell completes the values of an option with.
_COMPLETIONS: dict[str, Callable[[], list[str]]] = {
    "target": _targets,
    "preprocess": _preprocesses,
    "method": lambda: list(METHODS),
    "weight_method": lambda: list(METHODS),
}

DATA_HELP = "Samples: .npz, .npy, a folder of such or of images, or 'random'."

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", hidden=True)]
PresetName = Annotated[
    str,
    typer.Option(
        "-p",
        "--preset",
        autocompletion=lambda: list(PRESETS),
        show_default=False,
        help="To what: A8W8 by default, XINT8, U8S8, BF16, ...",
    ),
]
DataPath = Annotated[str | None, typer.Option("--calibration-data", metavar="PATH", help=DATA_HELP)]
ConfigFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="JSON or YAML with a preset's name and options."),
]

ShowImages = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Write the first eight images there, as the network sees them.")
]
Force = Annotated[bool, typer.Option("-f", "--force", metavar="", help="Replace an existing output.")]
AsJson = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON.")]

Verb = Callable[..., int]


def with_options(names: Iterable[str] = OPTIONS) -> Callable[[Verb], Verb]:
    """Returns a decorator that gives a verb with a ``**options`` parameter the named options of the configuration.

    They follow the verb's own, in groups. An option that is not given is None, or an empty list. What few people want
    is hidden until ``--help-all``.
    """
    wanted = set(names)
    rows = [OPTIONS[name] for name in OPTIONS if name in wanted]
    rows.sort(key=lambda option: GROUPS.index(option.group))

    def decorate(verb: Verb) -> Verb:
        own = [each for each in inspect.signature(verb).parameters.values() if each.kind is not each.VAR_KEYWORD]
        parameters = [*own, _HELP_ALL, *map(_parameter, rows)]
        verb.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
        verb.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": int}
        return verb

    return decorate


def _parameter(option: Option) -> inspect.Parameter:
    kind = option.kind
    word: Any = list[kind.word] if kind.many else kind.word  # type: ignore[name-defined]
    declared = typer.Option(
        *([option.flags] if option.flags else []),
        metavar="JSON" if kind.is_json else "" if kind.word is bool else option.metavar,
        help=option.help.removesuffix(".") + "; repeatable." if kind.many else option.help,
        rich_help_panel=None if option.name in _EVERYDAY else option.group,
        hidden=option.name not in _EVERYDAY and _COMPLETING not in os.environ,
        autocompletion=_COMPLETIONS.get(option.name),
    )
    annotation = Annotated[word | None, declared]
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _show_all(context: typer.Context, asked: bool) -> None:
    """Ends with the help of all options; what turns one off is told once, as a column of it cuts names."""
    if not asked:
        return
    for each in context.command.params:
        each.hidden = False  # type: ignore[attr-defined]
        each.opts = [*each.opts, *(name for name in each.secondary_opts if not name.startswith("--no-"))]
        each.secondary_opts = []
    context.command.epilog = f"--no- in front of a name turns it off: --no-equalize.\n\n{context.command.epilog}"
    typer.echo(context.get_help())
    raise typer.Exit


_HELP_ALL = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        bool | None,
        typer.Option("--help-all", is_eager=True, callback=_show_all, metavar="", help="Show every option."),
    ],
)


def as_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that were given, JSON read.

    Raises:
        ConfigError: If a value is no JSON where that is expected.
    """
    given = {name: value for name, value in options.items() if value not in (None, [])}
    return {name: _read(name, value) if is_json(name) else value for name, value in given.items()}


def is_json(name: str) -> bool:
    """Whether values of an option are JSON on the command line."""
    return name in OPTIONS and OPTIONS[name].kind.is_json


def _read(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--{name}: expected JSON, got {error}") from error


def chosen_preset(preset: str, config: Path | None) -> str | Scheme:
    """Takes the configuration file where there is one, otherwise the preset."""
    return preset if config is None else load_config(config)
