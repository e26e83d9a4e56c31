"""Nobody outside formats/ compares names of number formats or lists them: a row says what its format is able to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarkfast.formats.block import BLOCK_FORMATS
from quarkfast.formats.scalar import SCALAR_FORMATS

PACKAGE = Path(__file__).parents[2] / "python" / "quarkfast"
NAMES = frozenset({*SCALAR_FORMATS, *BLOCK_FORMATS})
# What a list of names is: presets, the schemas of operators in ONNX's notation, the executable specification, and verbs
# of the command line that are called as the format that they write.
MAY_NAME = (
    *("formats/", "reference/", "config/presets.py", "graph/schemas.py", "cli/examples.py"),
    "compat/quark/torch/file_to_file.py",
)
FILES = [
    path for path in sorted(PACKAGE.rglob("*.py")) if not path.relative_to(PACKAGE).as_posix().startswith(MAY_NAME)
]
# Values of options that are called as a format is: a kind of bias, a set of scales; an element type of an operator.
OTHERS = ("bias", "element", "scale")
# What a target's definition states: the types that its device takes.
STATED = ("activation_types", "weight_types")


def names_in(node: ast.AST) -> set[str]:
    """The names of formats among the constants of a comparison's side: one, a tuple, list or set, a dict's keys."""
    parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [node])
    return {part.value for part in parts if isinstance(part, ast.Constant) and part.value in NAMES}


def comparisons_of_names(tree: ast.AST) -> Iterator[int]:
    """The lines that compare something with a format's name, list such names, or look at how one begins or ends."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Target"]
    stated = {each.value for call in calls for each in call.keywords if each.arg in STATED}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            about = ast.unparse(node.left).rpartition(".")[2]
            if any(map(names_in, sides)) and not about.startswith(OTHERS):
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            words = "".join(ast.unparse(argument) for argument in node.args)
            if node.func.attr in ("startswith", "endswith") and re.search(r"'(u?int|b?float|b?fp|mx)", words):
                yield node.lineno
        elif isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            yield from [node.lineno] if len(names_in(node)) > 1 and node not in stated else []


def test_no_module_tests_names_of_formats():
    found = []
    for path in FILES:
        lines = path.read_text(encoding="utf-8").splitlines()
        where = path.relative_to(PACKAGE).as_posix()
        tests = sorted(set(comparisons_of_names(ast.parse("\n".join(lines)))))
        found += [f"{where}:{line}: {lines[line - 1].strip()}" for line in tests]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "spec.dtype == 'float16'",
        "spec.dtype not in ('int8', 'uint8')",
        "dtype.startswith(('int', 'uint'))",
        "dtype.endswith('int8')",
        "_HALVES = ['float16', 'bfloat16']",
        "_LIMITS = {'float16': 65504.0, 'bfloat16': 2.0}",
        "other(activation_types=('int8', 'uint8'))",
        "Target(activation_types=[x for x in y if x in ('int8', 'uint8')])",
    ],
)
def test_a_test_of_a_name_is_seen(text):
    assert set(comparisons_of_names(ast.parse(text))) == {1}


@pytest.mark.parametrize(
    "text",
    [
        "scheme.bias == 'int32'",
        "TensorSpec('int8')",
        "name.startswith('Extended')",
        "Target(activation_types=('int8', 'uint8'))",
    ],
)
def test_what_only_looks_like_one_is_not(text):
    assert not list(comparisons_of_names(ast.parse(text)))
