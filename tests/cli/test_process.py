"""The command in a process of its own: what only costs time is left out."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarkfast.cli import process
from quarkfast.cli.exit_codes import ExitCode
from support.tiny_models import conv_relu_model

NAME = "OPENBLAS_THREAD_TIMEOUT"


@pytest.fixture(autouse=True)
def own_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(NAME, "")  # so that it is put back
    monkeypatch.delenv(NAME)
    monkeypatch.setattr(process, "main", lambda: ExitCode.OK)
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    handlers = {
        number: signal.getsignal(number) for number in (signal.SIGTERM, getattr(signal, "SIGHUP", None)) if number
    }
    yield
    gc.unfreeze()
    for number, handler in handlers.items():
        signal.signal(number, handler)


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


ENDINGS = [name for name in ("SIGTERM", "SIGHUP", "SIGINT") if hasattr(signal, name)]


def run_until(name: str, folder: Path, *words: str, ignored: str = "SIG_DFL") -> subprocess.CompletedProcess[str]:
    """Quantizes a model in a process that gets a signal when its result has been written and not yet renamed."""
    (folder / "m.onnx").write_bytes(conv_relu_model().SerializeToString())
    script = f"""
        import os, signal, sys
        signal.signal(signal.{name}, signal.{ignored if name != "SIGINT" else "default_int_handler"})
        os.fsync = lambda _: os.kill(os.getpid(), signal.{name})
        from quarkfast.cli import run
        sys.argv[1:] = ["quantize", {str(folder / "m.onnx")!r}, "-p", "BF16", *{words!r}]
        sys.exit(run())
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("name", ENDINGS)
def test_a_signal_that_ends_the_process_leaves_nothing(tmp_path: Path, name: str) -> None:
    done = run_until(name, tmp_path)
    assert done.returncode == (ExitCode.INTERRUPTED if name == "SIGINT" else ExitCode.TERMINATED)
    assert done.stderr == "quarkfast: error: interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals are POSIX's")
def test_a_signal_that_the_process_was_told_to_ignore_is_ignored(tmp_path: Path) -> None:
    assert run_until("SIGHUP", tmp_path, ignored="SIG_IGN").returncode == ExitCode.OK
    assert (tmp_path / "m_bf16.onnx").is_file()
