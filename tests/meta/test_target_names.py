"""What a device wants is asked of its target: nobody else tests a target's name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import quarkfast

PACKAGE = Path(str(quarkfast.__file__)).parent
# Definitions, the targets of presets, and Quark's vocabulary.
NAMED = ("targets/", "config/presets.py", "config/quark/")
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if not path.relative_to(PACKAGE).as_posix().startswith(NAMED)]


def breaches(text: str) -> Iterator[str]:
    """Yields names of targets in code, the beginnings of such, and comparisons of a scheme's target."""
    tree = ast.parse(text)
    documented = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    known = {*quarkfast.TARGETS, *(f"{name.partition('-')[0]}-" for name in quarkfast.TARGETS)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in known and node not in documented:
            yield node.value
        compared = ast.walk(node) if isinstance(node, ast.Compare) else ()
        if any(isinstance(each, ast.Attribute) and each.attr == "target" for each in compared):
            yield ast.unparse(node)


def test_no_file_but_the_definitions_knows_a_target_by_name() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): list(breaches(path.read_text(encoding="utf-8"))) for path in FILES}
    assert {where: names for where, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "text",
    ["if scheme.target == other: pass", "_CPU = ('ort-cpu',)", "name.startswith('ryzenai-')", "x = y in (a.target, b)"],
)
def test_a_test_of_a_targets_name_is_seen(text: str) -> None:
    assert list(breaches(text))


def test_a_name_in_a_docstring_is_none() -> None:
    assert not list(breaches('"""Placed for ort-cpu."""\ntarget = find_target(scheme.target)'))
