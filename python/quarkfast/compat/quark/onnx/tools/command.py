"""Tools of Quark as commands: its arguments, one sentence for a mistake, status 0, 1 or, for wrong arguments, 2."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from quarkfast.errors import ConfigError, QuarkfastError, printable
from quarkfast.graph.external import write_model
from quarkfast.graph.load import load_model
from quarkfast.tools import Converted

__all__ = ["EXTERNAL_DATA", "Arguments", "Main", "Parser", "command", "shapes_of"]

Arguments = Mapping[str, Mapping[str, Any]]
"""Flags or positions of a tool, and what :meth:`argparse.ArgumentParser.add_argument` is told of each."""

EXTERNAL_DATA: Arguments = {
    "--save_as_external_data": {"action": "store_true", "help": "write the data to a second file"}
}


class Parser(argparse.ArgumentParser):
    """Reads the words of a command; what is wrong with them is one line, without the usage, and status 2."""

    def error(self, message: str) -> NoReturn:
        """Ends the command."""
        self.exit(2, f"{self.prog}: error: {message}; --help lists what it takes\n")


class Main(Protocol):
    """The main function of a tool."""

    def __call__(self, words: Sequence[str] | None = None) -> int:
        """Takes the words behind the name of the command, the process's own by default; returns the exit status."""


def command(name: str, does: str, arguments: Arguments, run: Callable[[Namespace], Converted]) -> Main:
    """Returns the main function of a tool.

    Args:
        name: The tool's name.
        does: What it does, as a sentence.
        arguments: What it takes.
        run: Does it.
    """

    def main(words: Sequence[str] | None = None) -> int:
        parser = Parser(prog=name, description=does)
        for flag, settings in arguments.items():
            parser.add_argument(flag, **settings)
        given = parser.parse_args(words)
        try:
            result = run(given)
            if getattr(given, "save_as_external_data", False):
                write_model(load_model(result.path), result.path, external=True)
        except (QuarkfastError, OSError) as error:
            sys.stderr.write(printable(f"{name}: error: {error}") + "\n")
            return 1
        for fact, value in (*result.facts, ("written", str(result.path))):
            sys.stdout.write(printable(f"{fact}: {value}") + "\n")
        return 0

    main.__doc__ = f"{does} Takes the words after the command's name, and returns the exit status."
    return main


def shapes_of(text: str) -> dict[str, list[int]]:
    """Reads Quark's notation of shapes: ``x:[1,3,224,224];y:[1,10]``.

    Raises:
        ConfigError: If it is something else.

    Example:
        >>> shapes_of("x:[1,3,224,224]; y:[1,10]")
        {'x': [1, 3, 224, 224], 'y': [1, 10]}
    """
    found = {}
    for part in filter(None, (each.strip() for each in text.split(";"))):
        name, _, sizes = part.rpartition(":")
        inner = sizes.strip().removeprefix("[").removesuffix("]").split(",")
        if not name or not sizes.strip().startswith("[") or not all(size.strip().isdecimal() for size in inner):
            raise ConfigError(f"fix_shapes: expected 'x:[1,3,224,224];y:[1,10]', got {part!r}")
        found[name.strip()] = [int(size) for size in inner]
    return found
