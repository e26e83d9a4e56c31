"""The workflows can be started by hand, and name what exists."""

import re
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(path: Path) -> dict[Any, Any]:
    content: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_fork_can_press_the_button(path: Path) -> None:
    assert "workflow_dispatch" in read(path)[True], "YAML 1.1 reads the key `on` as true"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_and_commands_that_are_called_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in re.findall(r"uses: \./(\S+)", text):
        assert (ROOT / name).is_file()
    for line in re.findall(r"--session (.+)", text):
        sessions = (ROOT / "noxfile.py").read_text(encoding="utf-8")
        assert [name for name in line.split() if f"\ndef {name}(session" not in sessions] == []


def test_publishing_waits_for_everything_else() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    publish = jobs.pop("publish")
    assert set(publish["needs"]) == set(jobs)
    assert publish["if"] == "github.event_name == 'release'"
