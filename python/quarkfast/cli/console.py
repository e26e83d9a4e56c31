"""What the verbs print: tables on standard output, progress on standard error and only where a person watches."""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

# rich cuts a table to 80 columns where it finds no terminal; a log file has room for all of it.
_WIDTH_OF_A_FILE = 160


# What stages count that do not count samples.
_UNITS = {"round": "layers", "choose tensors": "runs"}


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
def stages() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show the stage that runs and, where it counts samples, how many a second and how long it will take.

    The yielded function takes the stage's name, how many samples are done, and of how many (None if unknown).
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    error = Console(stderr=True)
    if not error.is_terminal:
        yield lambda stage, done, total: None
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}")
    with Progress(*columns, TimeRemainingColumn(), console=error, transient=True) as progress:
        task = progress.add_task("", total=None, count="")

        def report(stage: str, done: int, total: int | None) -> None:
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
                sys.stderr.write(f"quarkfast: warning: {warning.message}\n")


def _count(done: int, total: int | None, unit: str, speed: float | None) -> str:
    if not done:
        return ""
    count = f"{done}/{total} {unit}" if total else f"{done} {unit}"
    return f"{count}, {speed:.0f}/s" if speed else count


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table whose first column is text and whose others are figures."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(name, justify="right" if index else "left", no_wrap=True)
    _print(table, rows)


def show_facts(rows: Iterable[Sequence[str]]) -> None:
    """Print names and what is to be said about them."""
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    _print(table, rows)


def _print(table: "Table", rows: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.text import Text

    for row in rows:
        # As Text, because rich would take the brackets of a node's name for markup.
        table.add_row(*map(Text, row))
    Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE).print(table)


def kilobytes(size: int) -> str:
    """Write a size in bytes for a person.

    Example:
        >>> kilobytes(198128)
        '198.1 kB'
    """
    return f"{size / 1000:,.1f} kB"
