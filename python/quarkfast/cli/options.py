"""The options of the verbs: those of the configuration come from its table, those that verbs share stand here once."""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from quarkfast.config import GROUPS, OPTIONS, Option, Scheme, load_config
from quarkfast.errors import ConfigError

__all__ = [
    "DATA_HELP",
    "AsJson",
    "ConfigFile",
    "DataPath",
    "Force",
    "ModelPath",
    "PresetName",
    "as_given",
    "chosen_preset",
    "with_options",
]

DATA_HELP = "Samples: .npz by input name, .npy for one input, a folder of such or of images, or 'random'."

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="The float ONNX model.")]
PresetName = Annotated[str, typer.Option("-p", "--preset", help="What to quantize to, e.g. A8W8, U8S8, BF16.")]
DataPath = Annotated[str | None, typer.Option("--calibration-data", metavar="PATH", help=DATA_HELP)]
ConfigFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="JSON or YAML: a preset's name and options, or a scheme; instead of -p."),
]

Force = Annotated[bool, typer.Option("-f", "--force", help="Replace an existing output.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]

Verb = Callable[..., int]


def with_options(names: Iterable[str] = OPTIONS) -> Callable[[Verb], Verb]:
    """Returns a decorator that gives a verb with a ``**options`` parameter the named options of the configuration.

    They follow the verb's own, in groups. An option that is not given is None, or an empty list.
    """
    wanted = set(names)
    rows = [OPTIONS[name] for name in OPTIONS if name in wanted]
    rows.sort(key=lambda option: GROUPS.index(option.group))

    def decorate(verb: Verb) -> Verb:
        own = [each for each in inspect.signature(verb).parameters.values() if each.kind is not each.VAR_KEYWORD]
        parameters = [*own, *map(_parameter, rows)]
        verb.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
        verb.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": int}
        return verb

    return decorate


def _parameter(option: Option) -> inspect.Parameter:
    kind = option.kind
    word: Any = list[kind.word] if kind.many else kind.word  # type: ignore[name-defined]
    declared = typer.Option(
        *([option.flags] if option.flags else []),
        metavar="JSON" if kind.is_json else option.metavar,
        help=option.help.removesuffix(".") + "; repeatable." if kind.many else option.help,
        rich_help_panel=option.group,
    )
    annotation = Annotated[word | None, declared]
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def as_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that were given, JSON read.

    Raises:
        ConfigError: If a value is no JSON where that is expected.
    """
    given = {name: value for name, value in options.items() if value not in (None, [])}
    return {name: _read(name, value) if _is_json(name) else value for name, value in given.items()}


def _is_json(name: str) -> bool:
    return name in OPTIONS and OPTIONS[name].kind.is_json


def _read(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--{name}: expected JSON, got {error}") from error


def chosen_preset(preset: str, config: Path | None) -> str | Scheme:
    """Takes the configuration file where there is one, otherwise the preset."""
    return preset if config is None else load_config(config)
