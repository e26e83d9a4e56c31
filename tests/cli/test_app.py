"""The command as a whole: help, version, errors in one sentence, exit statuses."""

import errno
import re
import signal
from pathlib import Path

import pytest
import typer

import quarkfast
from quarkfast import errors
from quarkfast.cli import main
from quarkfast.cli import quantize as quantize_verb
from quarkfast.cli.app import _with_flags, app
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


SENTENCES = [
    (
        ["quantize"],
        "min_sqnr: expected calibration_data, got none",
        "--min-sqnr: expected --calibration-data, got none",
    ),
    (["quantize"], "calibration data: expected samples, got none", "--calibration-data: expected samples, got none"),
    (["evaluate"], "calibration data: expected samples, got none", "--data: expected samples, got none"),
    (["quantize"], "option samples: expected 1, got 'batch_size'", "--samples: expected 1, got 'batch_size'"),
    (["quantize"], "layers: expected one of op_types, bias", "--layers: expected one of op_types, bias"),
    (["check"], "min_sqnr: expected 3", "min_sqnr: expected 3"),
    (["convert", "opset"], "version: expected 3", "--to: expected 3"),
]


@pytest.mark.parametrize(("verb", "sentence", "shown"), SENTENCES, ids=[each[2] for each in SENTENCES])
def test_errors_name_the_options_of_the_verb(verb: list[str], sentence: str, shown: str) -> None:
    assert _with_flags(sentence, [*verb, "m.onnx"]) == shown


def test_the_help_of_quantize_fits_two_screens(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["quantize", "--help"]) == ExitCode.OK
    assert capsys.readouterr().out.count("\n") <= 48


@pytest.mark.parametrize("verb", ["quantize", "plan", "calibrate"])
def test_help_all_has_every_option_in_full(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([verb, "--help-all"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "…" not in out
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    for each in command.params:
        assert max(each.opts, key=len) in out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_given_completions(shell: str, run_module) -> None:
    shown = run_module("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_QUARKFAST_COMPLETE" in shown.stdout, shown.stderr


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("quantize m.onnx -p XI", "XINT8"),
        ("plan m.onnx --target ort-c", "ort-cpu"),
        ("plan --act", "--activation-type"),
    ],
)
def test_words_are_completed(words: str, found: str, run_module) -> None:
    line = f"quarkfast {words}"
    count = str(len(line.split()) - 1)
    shown = run_module(COMP_WORDS=line, COMP_CWORD=count, _QUARKFAST_COMPLETE="complete_bash")
    assert found in shown.stdout.splitlines(), shown.stderr


def test_help_tells_every_exit_status(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["--help"]) == ExitCode.OK
    text = " ".join(capsys.readouterr().out.split())
    for code, meaning in MEANINGS.items():
        assert f"{code.value} {meaning}" in text


def test_the_documentation_tells_every_exit_status() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for code, meaning in MEANINGS.items():
        assert f"| {code.value} | {meaning} |" in text
    assert set(MEANINGS) == set(ExitCode)
