"""Arguments of Quark's classes: one that is unknown meets a sentence."""

from __future__ import annotations

import functools
import inspect
from typing import Any, TypeVar

from quarkfast.errors import ConfigError, did_you_mean

__all__ = ["checked_arguments"]

T = TypeVar("T")


def checked_arguments(cls: type[T]) -> type[T]:
    """Makes the constructor of `cls` raise ConfigError, not TypeError, for arguments that it does not take.

    Example:
        >>> @checked_arguments
        ... class Settings:
        ...     def __init__(self, steps=1):
        ...         self.steps = steps
        >>> Settings(step=2)
        Traceback (most recent call last):
        quarkfast.errors.ConfigError: Settings: expected known arguments, got 'step'; did you mean 'steps'?
    """
    construct = cls.__init__
    signature = inspect.signature(construct)

    @functools.wraps(construct)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise _sentence(type(self).__name__, signature, args, kwargs) from error
        construct(self, *args, **kwargs)

    setattr(cls, "__init__", checked)  # noqa: B010 - mypy allows no assignment to a method
    return cls


def _sentence(name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ConfigError:
    """Returns what is wrong with arguments that do not fit."""
    known = list(signature.parameters)[1:]
    unknown = [key for key in kwargs if key not in known]
    if unknown:
        return ConfigError(f"{name}: expected known arguments, got {unknown[0]!r}{did_you_mean(unknown[0], known)}")
    positional = [key for key in known if signature.parameters[key].kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(args) > len(positional):
        return ConfigError(f"{name}: expected {len(positional)} arguments by position at most, got {len(args)}")
    twice = [key for key in positional[: len(args)] if key in kwargs]
    if twice:
        return ConfigError(f"{name}: expected {twice[0]} once, got it by position and by name")
    needed = [key for key in known[len(args) :] if signature.parameters[key].default is inspect.Parameter.empty]
    missing = [key for key in needed if key not in kwargs and key != "kwargs"]
    return ConfigError(f"{name}: expected {', '.join(missing)}, got none")
