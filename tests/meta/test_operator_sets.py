"""Sets of operator names stand in one file, `quarkfast.graph.operators`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

import quarkfast

PACKAGE = Path(str(quarkfast.__file__)).parent
RUNTIMES = {
    "FastGelu",
    "FusedConv",
    "FusedGemm",
    "FusedMatMul",
    "GroupQueryAttention",
    "MultiHeadAttention",
    "QuickGelu",
}
NAMES = {schema.name for schema in onnx.defs.get_all_schemas_with_history()} | RUNTIMES
MOST = 2

EXCEPTIONS = {
    "config/": "it lies below the graph, and these are words that users write",
    "targets/": "what a device computes is its target's alone",
    "graph/check_operands.py": "ends of names, also of operators on codes",
    "graph/schemas.py": "onnxruntime's operators that onnx infers nothing of",
    "graph/operators.py": "where they stand",
    "transforms/fold_affine.py": "the order in which it tries them",
    "writers/qdq.py": "endings of names of nodes",
}
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def sets_of(text: str) -> Iterator[list[str]]:
    """Yields literal sets, tuples and lists of more than two operator names, but for keys of tables."""
    tree = ast.parse(text)
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
    keys = {
        inner
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "fromkeys"
        for inner in ast.walk(call.args[0])
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Set | ast.Tuple | ast.List) and node not in keys:
            words = [each.value for each in node.elts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            found = [word for word in words if word.rpartition("::")[2] in NAMES]
            if len(found) > MOST:
                yield found


def test_no_other_file_writes_a_set_of_operators() -> None:
    found = {path: list(sets_of((PACKAGE / path).read_text(encoding="utf-8"))) for path in FILES}
    breaches = {path: sets for path, sets in found.items() if sets and not path.startswith(tuple(EXCEPTIONS))}
    assert breaches == {}
    assert {each for each in EXCEPTIONS if not any(found[path] for path in FILES if path.startswith(each))} == set()


@pytest.mark.parametrize(
    "text",
    [
        'A = frozenset({"Add", "Mul", "Sub"})',
        'if a in ("Conv", "Gemm", "x::FusedGemm"): pass',
        'B = ["Log", "Exp", "Erf"]',
    ],
)
def test_a_set_of_operators_is_seen(text: str) -> None:
    assert list(sets_of(text))


def test_keys_of_a_table_are_none() -> None:
    assert not list(sets_of('T = {"Add": 1, "Mul": 2, "Sub": 3} | dict.fromkeys(("Conv", "Gemm", "MatMul"), 4)'))
