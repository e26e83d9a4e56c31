"""What the documentation shows is run: examples of docstrings, and blocks of README and docs/ in Python and sh."""

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import quarkfast

ROOT = Path(__file__).parents[2]
PACKAGE = Path(quarkfast.__path__[0])
MODULES = [
    ".".join(("quarkfast", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_give_what_they_show(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert not failed


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if BLOCK.search(text)])
def test_blocks_of_a_page_run_in_order(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = TEXTS[name]
    names: dict[str, object] = {"__name__": "__docs__"}
    for block in BLOCK.finditer(text):
        if block[1] == "sh":
            run_in_shell(block[2], tmp_path)
        else:
            # Blank lines in front keep the line numbers of a failure those of the page.
            line = text.count("\n", 0, block.start(2))
            exec(compile("\n" * line + block[2], os.fspath(ROOT / name), "exec"), names)


def run_in_shell(commands: str, folder: Path) -> None:
    """Runs the lines of a block as somebody would type them, with `quarkfast` and `python` those of this process."""
    shims = folder / "bin"
    shims.mkdir(exist_ok=True)
    for command, words in {"python": "", "quarkfast": " -m quarkfast"}.items():
        (shims / command).write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n')
        (shims / command).chmod(0o755)
    found = {**os.environ, "PATH": f"{shims}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(["sh", "-e", "-c", commands], env=found, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
