"""The exception family: what quarkfast raises when a user can mend something.

Messages have one form: ``<where>: expected <what>, got <what>[; <remedy>]``. Mistakes in a single argument of a kernel
are plain ``TypeError`` and ``ValueError`` with the same form.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "CalibrationError",
    "ConfigError",
    "DependencyError",
    "ModelError",
    "OutputError",
    "QuarkfastError",
    "UnsupportedError",
    "closest",
    "did_you_mean",
    "printable",
    "shown",
]


def printable(text: str) -> str:
    """Return a text in which characters that are not printable are escaped, so that none acts on a terminal.

    Names in models may hold any: control characters, line ends, those that change the direction of writing, and halves
    of surrogate pairs. They are what ``repr`` escapes, too.

    Example:
        >>> print(printable("red \\x1b[31m, back \\u202e"))
        red \\x1b[31m, back \\u202e
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


class QuarkfastError(Exception):
    """Base of all errors that quarkfast raises on purpose."""

    def __str__(self) -> str:
        """Return the message on one line, printable whatever the names in it hold."""
        return printable(super().__str__())


class ConfigError(QuarkfastError, ValueError):
    """An option, preset or combination of them that does not exist or cannot work."""


class ModelError(QuarkfastError):
    """A model file or graph that cannot be read, checked or written."""


class OutputError(ModelError):
    """An output that cannot be written where it was asked for."""


class CalibrationError(QuarkfastError):
    """Calibration data that is missing, empty or does not fit the model."""


class UnsupportedError(QuarkfastError):
    """Something valid that this version, build or machine cannot do."""


class DependencyError(UnsupportedError):
    """A package that is missing or too old, or a native library that is not where it belongs."""


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest known name, or an empty string.

    Example:
        >>> did_you_mean("A8W9", ["A8W8", "BF16"])
        "; did you mean 'A8W8'?"
        >>> did_you_mean("zzz", ["A8W8", "BF16"])
        ''
    """
    near = closest(name, known)
    return "" if near is None else f"; did you mean '{near}'?"


def closest(name: object, known: Iterable[str]) -> str | None:
    """Return the closest known name, or None if none is close.

    Example:
        >>> closest("perchannel", ["per_channel", "exclude"])
        'per_channel'
    """
    import difflib  # 2 ms and 0.2 MB, for names that are wrong

    by_fold = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(str(name).casefold(), by_fold, n=1, cutoff=0.5)
    return by_fold[close[0]] if close else None


def shown(value: object) -> str:
    """Return a value as a message shows it: on one line and not too long.

    Example:
        >>> shown([[1, 2], "x" * 100])
        "[[1, 2], 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
