"""Calls of user code: readers, executors and metrics, whose errors become sentences."""

from __future__ import annotations

from types import TracebackType

from quarkfast.errors import CalibrationError, QuarkfastError

__all__ = ["UserCode"]


class UserCode:
    """A context in which any error of code that is not ours becomes a sentence, with the error as its cause.

    Interrupts pass, and so do the errors of this package.
    """

    def __init__(self, expected: str, kind: type[QuarkfastError] = CalibrationError) -> None:
        """Takes what was expected, as ``<where>: expected <what>``, and what to raise."""
        self._expected, self._kind = expected, kind

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, QuarkfastError):
            raise self._kind(f"{self._expected}, got {type(error).__name__}: {error}") from error
