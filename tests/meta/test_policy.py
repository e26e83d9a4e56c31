"""Thresholds that decide about accuracy stand in the policy: finds those that stand elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarkfast.config import POLICY, thresholds

PACKAGE = Path(__file__).parents[2] / "python" / "quarkfast"
DECIDING = [
    *("algorithms", "evaluate", "pipeline", "quantization", "ranges", "reconstruction", "search", "targets"),
    "transforms",
]

# Words that numbers which decide have in their names; floats need none.
WORDS = re.compile(
    "apart|below|bound|calibrating|certain|clear|deci|doubt|enough|error|factor|few|gain|growth|judge|least|loss|lost|"
    "margin|most|near|negligible|noise|poor|predicted|ratio|sample|searched|share|tried|trust|wanted|worth"
)

# Numbers that select or leave as it is.
_NEUTRAL = (-1, 0, 0.5, 1)

# What is no threshold of accuracy, by the reason: folder and name.
EXCEPTIONS = {
    "iterations and grids of solvers": (
        "algorithms _MOST_STEPS",
        "algorithms _TRIED",
        "algorithms _RIDGE",
        "algorithms _SHRINKS",
        "quantization _GRID",
        "reconstruction _LEAST_DAMPING",
    ),
    "candidates that samples or errors choose among": (
        "algorithms _FIRST",
        "algorithms _ALONE",
        "algorithms _UNJUDGED",
        "algorithms power",
        "ranges _PERCENTS",
    ),
    "options of users with their names in the documentation": (
        "algorithms cle_total_layer_diff_threshold",
        "ranges default",
        "ranges unread",
    ),
    "memory and time, whatever the result": (
        "algorithms _MOST_VALUES",
        "evaluate _MOST_JOINED",
        "evaluate _ENOUGH",
        "evaluate _LEAST",
        "evaluate _MOST",
        "pipeline _MOST_GROWTH",
        "reconstruction _WORTH_THREADS",
    ),
    "properties of types, operators and formats": (
        "algorithms _FEW",  # a standard error takes two, a certainty three
        "algorithms _ROUNDED_UP",
        "algorithms _MOST_OF_8_BITS",
        "quantization _DISTANCE",
        "quantization _RATIO",
        "quantization _LEAST_BITS",
        "quantization _MOST_RANK",
        "targets _SAME_SLOPE",
        "transforms SIGMOID_ERROR",
        "transforms _EPSILON",
        "transforms _MOST_DIMENSIONS",
        "transforms _BOUNDS_AS_INPUTS",
        "transforms _SAME_SLOPE",
        "transforms _SLOPE_FACTOR",
    ),
    "another tool's or a paper's definition": (
        "algorithms _NONE",
        "evaluate _BYTE",
        "evaluate _FEW",
        "evaluate _K1",
        "evaluate _K2",
        "evaluate _SIGMA",
        "evaluate peak",
        "evaluate _OVERLAP",  # of non-maximum suppression, as YOLOX evaluates
    ),
    "figures that are told and decide nothing": (
        "evaluate FLOAT_ROUNDINGS",
        "evaluate _REWRITTEN",
        "evaluate _GONE",
        "evaluate _SMALL",
        "pipeline _SURE",
        "search _CUT",
        "search _PREDICTED",
        "pipeline _TRIED",
        "pipeline _SAME",
        "pipeline most",
        "quantization most",
    ),
}


def _numbers(node: ast.expr) -> list[float] | None:
    """Returns the numbers that an expression is made of, or that make an object; None if there is anything else."""
    if isinstance(node, ast.Constant):
        return [node.value] if type(node.value) in (int, float) else None
    if isinstance(node, ast.Call):
        given = [_numbers(each) for each in (*node.args, *(each.value for each in node.keywords))]
        return [number for each in given if each for number in each] or None
    parts: list[ast.expr] = []
    if isinstance(node, ast.Tuple | ast.List):
        parts = node.elts
    elif isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    elif isinstance(node, ast.UnaryOp):
        parts = [node.operand]
    found = [_numbers(each) for each in parts]
    return None if not found or None in found else [number for each in found if each for number in each]


def _is_float(numbers: list[float] | None) -> bool:
    return any(isinstance(each, float) and each not in _NEUTRAL for each in numbers or ())


def _decides(name: str, value: ast.expr, neutral: tuple[float, ...] = _NEUTRAL) -> bool:
    numbers = _numbers(value)
    return bool(numbers) and (
        _is_float(numbers) or (bool(WORDS.search(name.lower())) and {*numbers} - {*neutral} != set())
    )


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Yields the names and values of an assignment."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value
    for target in node.targets if isinstance(node, ast.Assign) else ():
        if isinstance(target, ast.Name):
            yield target.id, node.value
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = zip(target.elts, node.value.elts, strict=True)
            yield from ((each.id, value) for each, value in pairs if isinstance(each, ast.Name))


def thresholds_in(text: str) -> set[str]:
    """Returns what a source has of numbers that decide: constants, fields, parameters, arguments, comparisons."""
    tree = ast.parse(text)
    found = {name for node in tree.body for name, value in _assigned(node) if _decides(name, value, neutral=())}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found |= {name for each in node.body for name, value in _assigned(each) if _decides(name, value)}
        elif isinstance(node, ast.arguments):
            pairs = [
                *zip(node.args[::-1], node.defaults[::-1], strict=False),
                *zip(node.kwonlyargs, node.kw_defaults, strict=True),
            ]
            found |= {each.arg for each, value in pairs if value is not None and _decides(each.arg, value)}
        elif isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant) and node.arg is not None:
            found |= {node.arg} if _decides(node.arg, node.value) else set()
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            found |= {
                ast.unparse(node) for side in sides if not isinstance(side, ast.Call) and _is_float(_numbers(side))
            }
    return found


def _found() -> dict[str, set[str]]:
    files = [path for folder in DECIDING for path in sorted((PACKAGE / folder).rglob("*.py"))]
    return {path.relative_to(PACKAGE).as_posix(): thresholds_in(path.read_text(encoding="utf-8")) for path in files}


def test_no_threshold_stands_outside_the_policy() -> None:
    allowed = {each for names in EXCEPTIONS.values() for each in names}
    found = {(path, name) for path, names in _found().items() for name in names}
    found = {(path, name) for path, name in found if f"{path.partition('/')[0]} {name}" not in allowed}
    assert not found, "expected a field of config/policy.py, or an exception with its reason"


def test_each_exception_is_there() -> None:
    found = {f"{path.partition('/')[0]} {name}" for path, names in _found().items() for name in names}
    assert {each for names in EXCEPTIONS.values() for each in names} <= found


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("_GAIN = 3.0", {"_GAIN"}),
        ("_GAIN = 1", {"_GAIN"}),
        ("_WORTH, _LEAST = 10**-0.1, 4", {"_WORTH", "_LEAST"}),
        ("_MOST: Final = 256 << 20", {"_MOST"}),
        ("_KEPT = Settings(gain=1.0, least=10.0)", {"_KEPT", "least"}),
        ("class Settings:\n    bound: float = 2.5\n    samples: int = 16", {"bound", "samples"}),
        ("def split(values, share=1 / 8): ...", {"share"}),
        ("def pays(found):\n    return found > 12.0", {"found > 12.0"}),
        ("def found():\n    return judge(gain=3)", {"gain"}),
        ("_BLOCK = 128\n_AXIS = 1\n_ROUNDS = 5", set()),
        ("class Chosen:\n    gain: float = 0.0", set()),
        ("def odd(x):\n    return x == 0.5 or x > 1.0", set()),
        ("_BY = scheme.policy.share", set()),
    ],
)
def test_a_threshold_is_seen(text: str, names: set[str]) -> None:
    assert thresholds_in(text) == names


def test_each_threshold_is_read_somewhere() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py") if path.name != "policy.py")
    unread = [row.name for row in thresholds(POLICY) if not re.search(rf"\.{row.name}\b", text)]
    assert not unread
