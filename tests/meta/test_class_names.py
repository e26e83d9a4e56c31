"""One name, one thing."""

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


def bound_names(text: str) -> list[str]:
    """Names of the functions, classes and constants of a module, as often as it binds them."""
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            overloads = any(ast.unparse(each).endswith("overload") for each in node.decorator_list)
            found += [] if overloads else [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            found += [each.id for each in names if isinstance(each.ctx, ast.Store)]
    return found


def test_no_module_binds_a_name_twice() -> None:
    counts = {path: Counter(bound_names(path.read_text(encoding="utf-8"))) for path in PACKAGE.rglob("*.py")}
    assert {(str(path), name) for path, names in counts.items() for name in names if names[name] > 1} == set()


def test_a_name_that_is_bound_twice_is_seen() -> None:
    assert bound_names("a, b = 1, 2\na: int = 3\ndef b(): pass") == ["a", "b", "a", "b"]
