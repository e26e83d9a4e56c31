"""The command in a process of its own: what only costs time is left out."""

import gc
import os
from collections.abc import Iterator

import pytest

from quarkfast.cli import process
from quarkfast.cli.exit_codes import ExitCode

NAME = "OPENBLAS_THREAD_TIMEOUT"


@pytest.fixture(autouse=True)
def own_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(NAME, "")  # so that it is put back
    monkeypatch.delenv(NAME)
    monkeypatch.setattr(process, "main", lambda: ExitCode.OK)
    yield
    gc.unfreeze()


def test_idle_threads_of_openblas_sleep_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def look() -> int:
        seen.append(os.environ[NAME])
        return ExitCode.OK

    monkeypatch.setattr(process, "main", look)
    assert process.run() == ExitCode.OK
    assert seen == ["4"]


def test_what_the_environment_says_of_them_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "26")
    process.run()
    assert os.environ[NAME] == "26"


def test_nothing_is_searched_for_cycles_when_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave() -> int:
        raise SystemExit

    monkeypatch.setattr(process, "main", leave)
    before = gc.get_freeze_count()
    with pytest.raises(SystemExit):
        process.run()
    assert gc.get_freeze_count() > before
