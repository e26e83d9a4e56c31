"""What the documentation shows is run: the examples of every docstring and every Python block of docs/ and README."""

import doctest
import importlib
import os
import pkgutil
import re
from pathlib import Path

import pytest

import quarkfast

ROOT = Path(__file__).parents[2]
# To import quarkfast.__main__ is to run the command, and the compiled files hold no examples.
MODULES = [
    module.name
    for module in pkgutil.walk_packages(quarkfast.__path__, "quarkfast.")
    if module.name.rpartition(".")[2] not in ("__main__", "_core", "libquarkfast")
]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_give_what_they_show(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert not failed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__docs__"}
    for block in PYTHON_BLOCK.finditer(page.read_text(encoding="utf-8")):
        line = page.read_text(encoding="utf-8").count("\n", 0, block.start(1))
        # Blank lines in front keep the line numbers of a failure those of the page.
        exec(compile("\n" * line + block[1], os.fspath(page), "exec"), names)
