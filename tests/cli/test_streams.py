"""Standard streams that are closed, full, without a reader or of few characters: no line of the command fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quarkfast.cli.exit_codes import ExitCode
from support.tiny_models import conv_relu_model

posix = pytest.mark.skipif(os.name != "posix", reason="a shell of POSIX closes and joins streams")


def shell(line: str, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a line of the shell, in which `quarkfast` is this package's command and $1, $2 ... are `words`."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    script = f'quarkfast() {{ "{sys.executable}" -m quarkfast "$@"; }}; set -o pipefail; {line}'
    command = ["bash", "-c", script, "bash", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=False, errors="replace")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "\u03a9.onnx"
    path.write_bytes(conv_relu_model().SerializeToString())
    return path


@posix
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("verb", ["inspect", "plan", "inspect --json", "quantize -p BF16"])
def test_a_closed_stream_takes_nothing_away_from_the_work(model: Path, verb: str, closed: str) -> None:
    done = shell(f'quarkfast {verb} "$1" {closed}', model)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert (model.with_name("\u03a9_bf16.onnx").exists()) == ("quantize" in verb)


@posix
@pytest.mark.parametrize(
    ("line", "status"),
    [
        ('inspect "$1" | true', ExitCode.OK),
        ('inspect --json "$1" | true', ExitCode.OK),
        ("--help | true", ExitCode.OK),
        ('inspect "$1/none" 2>&1 | true', ExitCode.MODEL),
        ("inspect --nothing 2>&1 | true", ExitCode.USAGE),
        ('evaluate "$1" "$1" --data random --samples 2 --fail-below cosine_min=2 | true', ExitCode.BELOW),
    ],
)
def test_without_a_reader_the_status_is_that_of_the_work(model: Path, line: str, status: ExitCode) -> None:
    done = shell(f"quarkfast {line}", model)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert "ignored" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_behind_standard_output_is_one_sentence(model: Path) -> None:
    done = shell('quarkfast inspect "$1" > /dev/full', model)
    assert done.returncode == ExitCode.OUTPUT
    assert done.stderr == "quarkfast: error: No space left on device\n"


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_characters_that_an_encoding_lacks_are_escaped(model: Path, encoding: str, run_module) -> None:
    done = run_module("quantize", model, "-p", "BF16", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert ("\u03a9_bf16.onnx" if encoding == "utf-8" else "\\u03a9_bf16.onnx") in done.stdout
