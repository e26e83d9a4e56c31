"""Who wants to hear how far a run is, and how long its stages took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Clock", "Progress"]

Progress = Callable[[str, int, int | None], None]
"""Called with the name of a stage, how many samples are done, and of how many (None if unknown)."""


class Clock:
    """Measures the wall time of each stage, in the order they ran, and reports progress.

    Attributes:
        seconds: Stage -> seconds.

    Example:
        >>> clock = Clock(lambda stage, done, total: print(stage, done, total))
        >>> with clock.stage("calibrate", 8) as report:
        ...     report(8)
        calibrate 0 8
        calibrate 8 8
        >>> list(clock.seconds)
        ['calibrate']
    """

    def __init__(self, progress: Progress | None = None) -> None:
        """Starts without stages."""
        self.seconds: dict[str, float] = {}
        self._progress = progress

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Times the block without the stages within it; yields a function to call with the samples that are done."""
        start, others = time.perf_counter(), sum(self.seconds.values())

        def report(done: int) -> None:
            if self._progress is not None:
                self._progress(name, done, total)

        report(0)
        try:
            yield report
        finally:
            within = sum(self.seconds.values()) - others
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start - within

    def report(self, name: str, done: int, total: int) -> None:
        """Says how far a stage is that has begun."""
        if self._progress is not None:
            self._progress(name, done, total)
