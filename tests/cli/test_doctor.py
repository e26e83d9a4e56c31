"""The verb `doctor`: a healthy installation, and each fault with its remedy."""

import re
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from quarkfast.cli import diagnosis, main
from quarkfast.cli import operator_selftest as trial
from quarkfast.cli.diagnosis import Diagnosis, examine, onnxruntime, operators, package
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.evaluate.processor import saturates

OPERATOR_SOURCES = Path(__file__).parents[2] / "csrc" / "ort" / "ops"


def remedies(findings: Iterable[Diagnosis]) -> list[str]:
    return [finding.remedy for finding in findings if finding.remedy]


def test_a_healthy_installation_is_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == ExitCode.OK
    captured = capsys.readouterr()
    assert captured.out.rstrip().endswith("Everything works.")
    assert captured.err == ""
    for word in ("python", "instruction sets", "threads", "operator library", "com.amd.quark.ExtendedQuantizeLinear"):
        assert word in captured.out


def test_a_fault_is_status_3_and_told_with_its_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "examine", lambda: iter([Diagnosis("numpy", "1.0", 'pip install "numpy>=1.26"')]))
    assert main(["doctor"]) == ExitCode.MISSING_DEPENDENCY
    captured = capsys.readouterr()
    assert captured.err == 'numpy: 1.0; pip install "numpy>=1.26"\n'
    assert "Everything works" not in captured.out


def test_a_missing_package_and_an_old_one_are_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = package("no-such-distribution", "2.0")
    assert missing == Diagnosis("no-such-distribution", "not installed", 'pip install "no-such-distribution>=2.0"')
    monkeypatch.setattr(metadata, "version", lambda name: "1.9.3")
    assert package("numpy", "1.26") == Diagnosis("numpy", "1.9.3", 'pip install "numpy>=1.26"')
    assert package("numpy", "1.9") == Diagnosis("numpy", "1.9.3")


@pytest.mark.parametrize(
    ("distributions", "remedy"),
    [
        ([], "pip install onnxruntime"),
        (["onnxruntime", "onnxruntime-gpu"], "they overwrite each other's files: pip uninstall onnxruntime "),
    ],
    ids=["none", "two that overwrite each other"],
)
def test_exactly_one_distribution_may_bring_onnxruntime(
    distributions: list[str], remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "packages_distributions", lambda: {"onnxruntime": distributions})
    (finding,) = onnxruntime("1.20")
    assert finding.remedy.startswith(remedy)


def test_a_vendors_onnxruntime_counts_as_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "packages_distributions", lambda: {"onnxruntime": ["onnxruntime-vitisai"]})
    monkeypatch.setattr(metadata, "version", lambda name: "1.23.0")
    assert list(onnxruntime("1.20")) == [Diagnosis("onnxruntime-vitisai", "1.23.0")]


def test_without_onnxruntime_it_tells_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    load = diagnosis.importlib.import_module

    def refuse(name: str) -> object:
        if name == "onnxruntime":
            raise ImportError("No module named 'onnxruntime'")
        return load(name)

    monkeypatch.setattr(diagnosis.importlib, "import_module", refuse)
    (fault,) = [finding for finding in operators() if finding.remedy]
    assert "pip install onnxruntime" in fault.value


def test_it_says_what_8_bit_models_gain_here() -> None:
    (found,) = [finding for finding in operators() if finding.what == "8-bit models here"]
    assert ("no VNNI" in found.value) == saturates()


@pytest.mark.parametrize("variable", ["QUARKFAST_ISA", "QUARKFAST_NUM_THREADS"])
def test_an_environment_variable_that_means_nothing_is_a_fault(run_module, variable: str) -> None:
    completed = run_module("doctor", **{variable: "sse9"})
    assert completed.returncode == ExitCode.MISSING_DEPENDENCY
    assert re.search(rf"{variable}: expected .*, got 'sse9'; change or unset the variable", completed.stderr)


def test_an_operator_that_answers_wrongly_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = trial.OPERATORS[0]._replace(output=np.array([9, 9, 9, 9], np.int8))
    assert trial.fault_of(wrong) == "expected [9, 9, 9, 9], got [-2, 0, 1, 3]"
    monkeypatch.setattr(trial, "OPERATORS", [wrong])
    assert remedies(operators()) == ["report this with the whole output of quarkfast doctor"]


def test_every_operator_of_the_library_is_tried() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted(OPERATOR_SOURCES.glob("*.cc")))
    quark = re.findall(r'add_quark<.*>\(definitions, api, "(\w+)", "(\w+)"\)', sources)
    own = re.findall(r'define<.*>\(api, kDomain, "(\w+)"\)', sources)
    assert quark
    assert own
    registered = {name for names in quark for name in names} | set(own)
    assert {operator.name for operator in trial.OPERATORS} == registered


def test_the_diagnosis_finds_nothing_wrong_and_writes_no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert remedies(examine()) == []
    assert list(tmp_path.iterdir()) == []
