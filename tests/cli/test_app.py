"""The command as a whole: help, version, errors in one sentence, exit statuses."""

import errno
import re
import signal
from pathlib import Path

import pytest

import quarkfast
from quarkfast import errors
from quarkfast.cli import main
from quarkfast.cli import quantize as quantize_verb
from quarkfast.cli.exit_codes import MEANINGS, ExitCode, exit_code_of

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"

CODE_OF_ERROR = [
    (errors.ConfigError("x"), ExitCode.USAGE),
    (errors.DependencyError("x"), ExitCode.MISSING_DEPENDENCY),
    (ImportError("x"), ExitCode.MISSING_DEPENDENCY),
    (errors.ModelError("x"), ExitCode.MODEL),
    (errors.UnsupportedError("x"), ExitCode.MODEL),
    (errors.CalibrationError("x"), ExitCode.CALIBRATION),
    (errors.OutputError("x"), ExitCode.OUTPUT),
    (OSError(errno.ENOSPC, "No space left on device"), ExitCode.OUTPUT),
    (OSError(errno.EIO, "Input/output error"), ExitCode.FAILURE),
    (MemoryError(), ExitCode.FAILURE),
]


@pytest.mark.parametrize(("error", "code"), CODE_OF_ERROR, ids=[f"{e!r} is {c.value}" for e, c in CODE_OF_ERROR])
def test_every_kind_of_error_has_its_exit_status(error: BaseException, code: ExitCode) -> None:
    assert exit_code_of(error) == code


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (errors.ModelError("m.onnx: expected a model, got nothing"), "m.onnx: expected a model, got nothing"),
        (OSError(errno.ENOSPC, "No space left on device", "/out/m.onnx"), "/out/m.onnx: No space left on device"),
        (MemoryError(), "out of memory"),
    ],
    ids=["ours", "the system's", "memory"],
)
def test_an_error_is_one_sentence_on_standard_error(
    error: Exception, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(quantize_verb, "check_environment", fail)
    assert main(["quantize", "m.onnx"]) == exit_code_of(error)
    captured = capsys.readouterr()
    assert captured.err == f"quarkfast: error: {sentence}\n"
    assert captured.out == ""


def test_an_interrupt_is_status_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(quantize_verb, "check_environment", interrupt)
    assert main(["quantize", "m.onnx"]) == 128 + signal.SIGINT
    assert capsys.readouterr().err == "quarkfast: error: interrupted\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["quantise"], r"no such command 'quantise'.*; see 'quarkfast --help'"),
        (["quantize"], r"missing argument 'MODEL'; see 'quarkfast quantize --help'"),
        (["quantize", "m.onnx", "--presett", "A8W8"], r"no such option: --presett.*; see 'quarkfast quantize --help'"),
        (["quantize", "m.onnx", "--samples", "many"], r"invalid value for '--samples'.+; see 'quarkfast .+'"),
        (["demo", "now"], r"got unexpected extra argument.* \(now\); see 'quarkfast demo --help'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_sentence_and_status_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert re.fullmatch(f"quarkfast: error: {sentence}\n", captured.err)
    assert captured.out == ""


@pytest.mark.parametrize("verb", [["quantize", "m.onnx"], ["demo"]], ids=lambda verb: verb[0])
@pytest.mark.parametrize("variable", ["QUARKFAST_ISA", "QUARKFAST_NUM_THREADS"])
def test_an_environment_variable_that_means_nothing_is_status_2(run_module, verb: list[str], variable: str) -> None:
    completed = run_module(*verb, **{variable: "sse9"})
    assert completed.returncode == ExitCode.USAGE
    assert re.fullmatch(rf"quarkfast: error: {variable}: expected .+, got 'sse9'\n", completed.stderr)


def test_python_m_quarkfast_is_the_command(run_module) -> None:
    completed = run_module("--help")
    assert completed.returncode == ExitCode.OK
    assert "Usage: quarkfast" in completed.stdout


def test_without_a_verb_it_shows_its_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == ExitCode.USAGE
    assert "Usage: quarkfast" in capsys.readouterr().out


def test_version_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == ExitCode.OK
    assert capsys.readouterr().out == f"quarkfast {quarkfast.__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["--help"], ["quantize", "-h"], ["demo", "--help"], ["doctor", "--help"]], ids=" ".join
)
def test_help_tells_every_exit_status(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(arguments) == ExitCode.OK
    text = " ".join(capsys.readouterr().out.split())
    for code, meaning in MEANINGS.items():
        assert f"{code.value} {meaning}" in text


def test_the_documentation_tells_every_exit_status() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for code, meaning in MEANINGS.items():
        assert f"| {code.value} | {meaning} |" in text
    assert set(MEANINGS) == set(ExitCode)
