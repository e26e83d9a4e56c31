"""A metric of the user's own: a function, or the name of one in a module."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from quarkfast.calibration.user_code import UserCode
from quarkfast.errors import ConfigError

__all__ = ["Metric", "measure_metric", "read_metric"]

Metric = Callable[[Any, Any], float]
"""From an `onnxruntime.InferenceSession` with exact sums and data to a number, of which more is better."""


def read_metric(metric: Metric | str) -> Metric:
    """Returns the function; ``"module:function"`` is looked for in the working folder too.

    Raises:
        ConfigError: If it is neither a function nor the name of one.
    """
    if isinstance(metric, str):
        module, separator, name = metric.partition(":")
        if not (module and separator and name):
            hint = "; percentile_metric chooses among percentiles" if metric in ("mae", "mse") else ""
            raise ConfigError(f"metric: expected a function or 'module:function', got {metric!r}{hint}")
        with _working_folder_on_path(), UserCode(f"metric: expected the function {metric!r}", ConfigError):
            found = getattr(import_module(module), name)
    else:
        found = metric
    if not callable(found):
        raise ConfigError(f"metric: expected a function or 'module:function', got {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def measure_metric(metric: Metric, session: Any, data: Any) -> float:
    """Returns the metric of a model.

    Raises:
        ConfigError: If it raises, or returns something else than a finite number.
    """
    with UserCode("metric: expected a number", ConfigError):
        value = float(metric(session, data))
    if not math.isfinite(value):
        raise ConfigError(f"metric: expected a finite number, got {value}")
    return value


@contextmanager
def _working_folder_on_path() -> Iterator[None]:
    """Lets modules of the working folder be imported, as `python -m` does."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
