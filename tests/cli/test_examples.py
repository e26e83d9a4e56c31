"""The line of example in the help of each verb: there, whole on a line of 80 columns, and understood."""

import re

import pytest

from quarkfast.cli import main
from quarkfast.cli.app import app
from quarkfast.cli.convert import COMMANDS
from quarkfast.cli.examples import EXAMPLES
from quarkfast.cli.exit_codes import ExitCode


def test_every_verb_has_an_example() -> None:
    verbs = [each.callback.__name__ for each in app.registered_commands] + [each.__name__ for each in COMMANDS]
    assert {each.replace("_", "-") for each in verbs} == set(EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES.values())
def test_the_help_of_a_verb_shows_its_example_on_one_line(example, monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = example.split()
    assert main([*words[: 2 if words[0] == "convert" else 1], "--help"]) == ExitCode.OK
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in capsys.readouterr().out.splitlines()]
    assert f"quarkfast {example}" in lines


@pytest.mark.parametrize("example", [each for each in EXAMPLES.values() if " " in each])
def test_an_example_names_options_and_arguments_that_exist(example, tmp_path, monkeypatch, capsys) -> None:
    """Its files are missing here, which is found after its words are understood."""
    monkeypatch.chdir(tmp_path)
    assert main(example.split()) not in (ExitCode.OK, ExitCode.USAGE)
    capsys.readouterr()
