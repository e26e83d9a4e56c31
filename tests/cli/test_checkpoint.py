"""The verb `checkpoint`: what it writes, and what a mistake says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quarkfast.cli.app import main
from quarkfast.cli.exit_codes import ExitCode
from support.made_checkpoints import write_checkpoint


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "source")


def words(source: Path, *more: str, preset: str = "int4_wo_64") -> list[str]:
    return ["checkpoint", str(source), "-o", str(source.parent / "out"), "-p", preset, *more]


def test_it_writes_a_folder_and_says_what_became_of_it(source, capsys):
    assert main(words(source, "--verify")) == ExitCode.OK
    said = " ".join(capsys.readouterr().out.split())
    assert "format compressed-tensors, int4_wo_64 layers 14" in said
    assert "read back 14 of 14 layers, 0 values differ" in said
    assert "note left float: model.embed_tokens, lm_head" in said
    assert said.count("model.layers.") == 10
    assert (source.parent / "out" / "config.json").is_file()


def test_a_dry_run_says_the_size_and_writes_nothing(source, capsys):
    assert main(words(source, "--dry-run", "--format", "gptq")) == ExitCode.OK
    said = capsys.readouterr().out
    assert "(not written)" in said
    assert "MB -> " in said
    assert list(source.parent.iterdir()) == [source]


def test_json_and_the_report_have_every_layer_that_was_read_back(source, capsys):
    report = source.parent / "report.json"
    options = ["--json", "--verify", "--report", str(report), "--exclude", "*.down_proj", "--method", "mse"]
    assert main(words(source, *options)) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert json.loads(report.read_text()) == found
    assert found["layers"] == found["verification"]["read_back"] == len(found["verification"]["layers"]) == 12
    assert found["verification"]["differing"] == 0


def test_the_page_has_every_layer_that_was_read_back_worst_first(source, capsys):
    report = source.parent / "report.html"
    assert main(words(source, "--json", "--verify", "--report", str(report))) == ExitCode.OK
    layers = json.loads(capsys.readouterr().out)["verification"]["layers"]
    page = report.read_text(encoding="utf-8")
    places = [page.index(f"<code>{each['name']}</code>") for each in sorted(layers, key=lambda each: each["sqnr"])]
    assert len(places) == 14
    assert places == sorted(places)
    assert page.startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("more", "status", "sentence"),
    [
        (["--group-size", "zero"], ExitCode.USAGE, "--group-size: expected a number above 0 or auto, got 'zero'"),
        (["--group-size", "48"], ExitCode.USAGE, "--group-size: expected groups that divide the inputs of every layer"),
        (["--format", "gptw"], ExitCode.USAGE, "did you mean 'gptq'"),
        (["--report", "x.txt"], ExitCode.OUTPUT, "--report: expected a name that ends in .html or .json, got 'x.txt'"),
        (["--exclude", "nothing"], ExitCode.USAGE, "exclude: expected the name of a layer, got 'nothing'"),
    ],
)
def test_a_mistake_is_one_sentence_and_a_status(source, capsys, more, status, sentence):
    assert main(words(source, *more)) == status
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert list(source.parent.iterdir()) == [source]


def test_a_broken_source_has_the_status_of_a_model(tmp_path, capsys):
    assert main(["checkpoint", str(tmp_path / "none"), "-o", str(tmp_path / "out"), "-p", "int8"]) == ExitCode.MODEL
    assert "expected a folder of a checkpoint, got none" in capsys.readouterr().err


def test_an_output_that_exists_is_replaced_only_with_force(source, capsys):
    assert main(words(source)) == ExitCode.OK
    assert main(words(source)) == ExitCode.OUTPUT
    assert "--force replaces it" in capsys.readouterr().err
    assert main(words(source, "--force", "--group-size", "auto", preset="uint4_wo_128")) == ExitCode.OK
