"""One name, one class."""

import ast
from collections import Counter
from pathlib import Path

import quarkfast

PACKAGE = Path(quarkfast.__file__).parent

# Quark has classes of these names in several of its modules, under which scripts import them.
QUARKS = {"ModelQuantizer", "RandomDataReader"}


def test_no_two_classes_have_one_name() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")]
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1} <= QUARKS
