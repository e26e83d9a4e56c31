"""What the verbs print: tables on standard output, progress on standard error: a bar, or a line every half minute."""

import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from quarkfast.cli.column_widths import column_widths
from quarkfast.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# rich cuts a table to 80 columns where it finds no terminal; a log file has room for all of it.
_WIDTH_OF_A_FILE = 160
# Between columns of a table.
_GAP, _NARROW_GAP = 3, 2


# What stages count that do not count samples.
_UNITS = {"round": "layers", "choose tensors": "runs", "weights": "MB", "read back": "layers", "search": "levers"}

# Seconds between lines about progress where standard error is no terminal.
_BETWEEN_LINES = 30.0

Report = Callable[[str, int, int | None], None]


class _Lines:
    """Progress as lines: the stage that runs, how far it is, and an estimate of the rest."""

    def __init__(self) -> None:
        """Starts without a stage."""
        self._stage, self._done = "start", 0
        self._total: int | None = None
        self._began = self._searching = time.monotonic()

    def report(self, stage: str, done: int, total: int | None) -> None:
        """Takes what is done; before a search goes on, what that may take is said at once."""
        if stage == "search":
            show_line(f"quarkfast: {_told(stage, done, total, time.monotonic() - self._searching)} at most", error=True)
            return
        if stage != self._stage:
            self._began = time.monotonic()
        self._stage, self._done, self._total = stage, done, total

    def tell(self) -> None:
        """Writes a line."""
        told = _told(self._stage, self._done, self._total, time.monotonic() - self._began)
        show_line(f"quarkfast: {told}", error=True)


def _told(stage: str, done: int, total: int | None, seconds: float) -> str:
    """Returns how far a stage is after so many seconds, and how long the rest takes at that pace."""
    unit = _UNITS.get(stage, "samples")
    if not done:
        return f"{stage}, {seconds:.0f} s"
    if total is None:
        return f"{stage}: {done} {unit} in {seconds:.0f} s"
    return f"{stage}: {done}/{total} {unit} in {seconds:.0f} s, about {seconds / done * (total - done):.0f} s left"


@contextmanager
def _lines() -> Iterator[Report]:
    lines, ended = _Lines(), threading.Event()

    def tell() -> None:
        while not ended.wait(_BETWEEN_LINES):
            lines.tell()

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield lines.report
    finally:
        ended.set()
        teller.join()


@contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """Show what is being done while it is being done; silent where standard error is not a terminal."""
    from rich.console import Console

    error = Console(stderr=True)
    if not error.is_terminal:
        yield lambda text: None
        return
    with error.status("") as line:
        yield line.update


@contextmanager
def stages() -> Iterator[Report]:
    """Show the stage that runs and, where it counts samples, how many a second and how long it will take.

    Where standard error is no terminal, a line says so every half minute.

    The yielded function takes the stage's name, how many samples are done, and of how many (None if unknown).
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    error = Console(stderr=True)
    if not error.is_terminal:
        with _lines() as report_line:
            yield report_line
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}")
    with Progress(*columns, TimeRemainingColumn(), console=error, transient=True) as progress:
        task, began = progress.add_task("start", total=None, count=""), time.monotonic()

        def report(stage: str, done: int, total: int | None) -> None:
            if stage == "search":
                progress.console.print(f"{_told(stage, done, total, time.monotonic() - began)} at most", markup=False)
                return
            unit = _UNITS.get(stage, "samples")
            if progress.tasks[task].description != stage:
                progress.reset(task, description=stage)
            progress.update(
                task, completed=done, total=total, count=_count(done, total, unit, progress.tasks[task].speed)
            )

        yield report


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Write the warnings of a block to standard error when it ends, one line each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for warning in caught:
                show_line(f"quarkfast: warning: {warning.message}", error=True)


def show_line(text: str, *, error: bool = False) -> None:
    """Print a line, to standard error if it is about an error; names in it may hold any characters."""
    print(printable(text), file=sys.stderr if error else sys.stdout)


def _count(done: int, total: int | None, unit: str, speed: float | None) -> str:
    if not done:
        return ""
    count = f"{done}/{total} {unit}" if total else f"{done} {unit}"
    return f"{count}, {speed:.0f}/s" if speed else count


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], lists: Collection[int] = ()) -> None:
    """Print a table whose first column is text and whose others are figures, those of `lists` parts behind commas.

    No figure is cut: on a narrow terminal names and headings wrap, and where that is not enough each row is a list.
    """
    from rich import box
    from rich.table import Table

    cells = [list(map(printable, row)) for row in rows]
    room = _console().width
    look: dict[str, Any] = {"title": title, "title_justify": "left", "title_style": "bold", "pad_edge": False}
    if sum(max(map(len, column)) + _GAP for column in zip(columns, *cells, strict=True)) <= room:
        table = Table(box=box.SIMPLE_HEAD, **look)
        for index, name in enumerate(columns):
            table.add_column(name, justify="right" if index else "left", no_wrap=True)
        _print(table, cells)
        return
    widths = column_widths(columns, cells, lists, room - _NARROW_GAP * len(columns))
    if widths is None:
        _console().print(title, style="bold", markup=False, highlight=False)
        for row in cells:
            show_facts([("", ""), *((name, cell) for name, cell in zip(columns, row, strict=True) if cell)])
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, _NARROW_GAP - 1, 0, 0), **look)
    for index, (name, width) in enumerate(zip(columns, widths, strict=True)):
        left = index == 0 or index in lists
        table.add_column(name, justify="left" if left else "right", width=width, overflow="fold")
    _print(table, ([_broken(cell, width) for cell, width in zip(row, widths, strict=True)] for row in cells))


def _broken(cell: str, width: int) -> str:
    """Break a list behind its commas where it is wider than its column."""
    return cell if len(cell) <= width else cell.replace(", ", ",\n")


def show_facts(rows: Iterable[Sequence[str]]) -> None:
    """Print names and what is to be said about them."""
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    _print(table, (map(printable, row) for row in rows))


def _console() -> "Console":
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE)


def _print(table: "Table", rows: Iterable[Iterable[str]]) -> None:
    from rich.text import Text

    for row in rows:
        # As Text, because rich would take the brackets of a node's name for markup.
        table.add_row(*map(Text, row))
    console = _console()
    if sys.stdout.isatty():
        console.print(table)
        return
    with console.capture() as printed:
        console.print(table)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in printed.get().splitlines())


def kilobytes(size: int) -> str:
    """Write a size in bytes for a person.

    Example:
        >>> kilobytes(198128)
        '198.1 kB'
    """
    return f"{size / 1000:,.1f} kB"
