"""The version of the package, as its installation says."""

from __future__ import annotations

from functools import cache

__all__ = ["version"]


@cache
def version() -> str:
    """Returns the installed version, ``0+source`` for a source tree on ``sys.path`` that is not installed."""
    from importlib import metadata  # 10 ms, for what few programs ask

    try:
        return metadata.version("quarkfast")
    except metadata.PackageNotFoundError:
        return "0+source"
