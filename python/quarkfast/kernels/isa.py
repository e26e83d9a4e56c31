"""Which instruction set and how many threads the native kernels use."""

from __future__ import annotations

from quarkfast import _core

__all__ = ["active_isa", "available_isas", "num_threads", "set_num_threads", "use_isa"]


def available_isas() -> list[str]:
    """Return the names of the instruction sets that this build holds and this processor runs, best first.

    Example:
        >>> active_isa() in available_isas()
        True
    """
    return _core.available_isas()


def active_isa() -> str:
    """Return the name of the instruction set in use: the best one, or what ``QUARKFAST_ISA`` or :func:`use_isa` named.

    Raises:
        ValueError: ``QUARKFAST_ISA`` names an instruction set that is not available.
    """
    return _core.active_isa()


class _Restore:
    """Undoes a choice when used as a context manager."""

    def __init__(self, previous: str) -> None:
        self._previous = previous

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        _core.use_isa(self._previous)


def use_isa(name: str) -> _Restore:
    """Run all kernels of this process on the named instruction set, from now on or for the length of a ``with`` block.

    Args:
        name: One of :func:`available_isas`.

    Returns:
        A context manager that restores the previous one; ignore it to keep the choice.

    Raises:
        ValueError: the name is unknown or not supported here; the message lists what is.

    Example:
        >>> with use_isa(available_isas()[-1]):
        ...     active_isa() == available_isas()[-1]
        True
    """
    previous = _core.active_isa()
    _core.use_isa(name)
    return _Restore(previous)


def num_threads() -> int:
    """Return how many threads kernels called from Python use: ``QUARKFAST_NUM_THREADS``, else all processors."""
    return _core.num_threads()


def set_num_threads(threads: int) -> None:
    """Set how many threads kernels called from Python use. Results do not depend on it.

    Args:
        threads: From 1 to 4096.

    Raises:
        ValueError: the number is outside that range.
    """
    _core.set_num_threads(threads)
