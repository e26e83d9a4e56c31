"""The README's two commands are what .ci/run runs, and name extras and verbs that exist."""

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SCRIPT = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def commands() -> list[str]:
    """The commands as .ci/run finds them: by the very pattern that stands there."""
    pattern = re.search(r"grep -E '(.+?)' README\.md", SCRIPT)
    assert pattern
    return [line for line in README.splitlines() if re.search(pattern[1], line)]


def test_ci_finds_the_two_commands_of_the_readme() -> None:
    first, second = commands()
    assert first.endswith("quarkfast demo")
    assert second.endswith("pytest")


def test_the_commands_name_extras_that_exist() -> None:
    extras = re.findall(r'"\.\[(\w+)\]"', " ".join(commands()))
    assert len(extras) == 2
    assert set(extras) <= set(PROJECT["optional-dependencies"])


def test_ci_runs_the_commands_as_they_stand() -> None:
    assert re.findall(r"in_project \"\$\{commands\[(\d)\]\}\"", SCRIPT) == ["0", "1"]


def test_the_ci_script_is_executable_and_parses() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", script], check=True)


def test_every_local_link_of_the_readme_leads_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", README):
        assert (ROOT / target).exists(), target
