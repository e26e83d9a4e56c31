"""Who may see whom: reads every import and #include and holds it against the layers of the architecture."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "quarkfast"
CSRC = ROOT / "csrc"

# A module sees those above it; siblings of one line do not see each other.
PYTHON_LAYERS = [
    ["_core", "_version", "deferred", "errors"],
    ["atomic_files"],
    ["dtypes", "block_formats"],
    ["kernels", "reference", "isa"],
    ["qparams"],
    ["config"],
    ["graph", "ort", "methods"],
    ["prepare", "calibration", "qdq", "preflight", "refine", "tune", "evaluate", "tools", "weights"],
    ["summary", "progress", "planning"],
    ["provenance"],
    ["calibrate", "weight_only"],
    ["shown"],
    ["quantize"],
    ["model_quantizer"],
    ["compat"],
    ["demo"],
    ["cli"],
    ["__main__"],
]
RANK = {name: rank for rank, names in enumerate(PYTHON_LAYERS) for name in names}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")

# Where a package from outside may be imported, onnx_ir by way of `quarkfast.deferred`; "" is the whole package.
OUTSIDE = {
    "onnxruntime": ["ort.py"],
    "onnx": [
        "graph",
        "prepare",
        "calibration",
        "qdq",
        "refine",
        "tune",
        "evaluate",
        "tools",
        "calibrate.py",
        "quantize.py",
        "model_quantizer.py",
        "cli/trial.py",
    ],
    "onnx_ir": ["deferred.py"],
    "quarkfast.deferred": [
        "graph",
        "prepare",
        "calibration",
        "qdq",
        "preflight",
        "refine",
        "tune",
        "evaluate",
        "tools",
        "weights",
        "calibrate.py",
        "planning.py",
        "provenance.py",
        "quantize.py",
        "shown.py",
        "weight_only.py",
    ],
    "typer": ["cli"],
    "rich": ["cli"],
    "torch": [],
}

# The folders of csrc/: each sees itself and those above it, never its siblings of one line. Two files in csrc/ itself
# stand for what is below: kernels.h, the contract, for the kernels, and export.h for the library.
CPP_LAYERS = [["numerics"], ["kernels"], ["runtime"], ["tensor", "stats", "ranges"], ["ort", "python"]]
CPP_RANK = {name: rank for rank, names in enumerate(CPP_LAYERS) for name in names}
CPP_FILES = {"kernels.h": "kernels", "export.h": "runtime"}
KERNEL_STANDARD_HEADERS = {"cstddef", "cstdint", "cstring", "limits"}
# Kernels that use instructions by name, each with its measurement in the file.
INTRINSICS = {"kernels/convert_f16.inl.h", "kernels/histogram.inl.h"}
SOURCES = sorted(path for path in CSRC.rglob("*") if re.search(r"\.(h|cc|in|inc)$", path.name))


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[str]:
    """Every imported module by its full name, wherever in the file the import stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: expected absolute imports"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_module_sees_only_the_layers_below_it(path: Path) -> None:
    own = layer_of(path)
    assert own in RANK, f"{own} has no place in PYTHON_LAYERS"
    for name in imports_of(path):
        package, _, rest = name.partition(".")
        seen = rest.partition(".")[0]
        if package == "quarkfast" and seen in RANK and seen != own:
            assert RANK[seen] < RANK[own], f"{own} may not see {seen}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_outside_packages_are_imported_only_where_they_belong(path: Path) -> None:
    where = path.relative_to(PACKAGE).as_posix()
    for name in imports_of(path):
        package = "quarkfast.deferred" if name.startswith("quarkfast.deferred.") else name.partition(".")[0]
        allowed = OUTSIDE.get(package)
        assert allowed is None or where.startswith(tuple(allowed)), f"{where} may not import {name}"


def part_of(where: str) -> str:
    """The part of csrc/ that a file belongs to: its folder, or itself."""
    return where.partition("/")[0]


def may_include(own: str, seen: str) -> bool:
    """Whether a part of csrc/ may include another; kernels are seen by their contract, by the layers that call them."""
    if own == seen:
        return True
    rank, below = (CPP_RANK[CPP_FILES.get(part, part)] for part in (own, seen))
    if seen == "export.h":
        return rank >= below
    if seen == "kernels.h":
        return own == "kernels" or rank in (CPP_RANK["runtime"], CPP_RANK["tensor"])
    return seen != "kernels" and below < rank


def test_every_folder_of_csrc_has_a_layer() -> None:
    assert {part_of(path.relative_to(CSRC).as_posix()) for path in SOURCES} == {*CPP_RANK, *CPP_FILES}


@pytest.mark.parametrize(
    ("own", "seen"),
    [
        ("numerics", "kernels.h"),
        ("numerics", "export.h"),
        ("kernels", "export.h"),
        ("kernels", "runtime"),
        ("kernels.h", "kernels"),
        ("kernels.h", "runtime"),
        ("runtime", "tensor"),
        ("tensor", "kernels"),
        ("tensor", "stats"),
        ("stats", "tensor"),
        ("stats", "ranges"),
        ("ranges", "stats"),
        ("ranges", "python"),
        ("ort", "kernels.h"),
        ("ort", "python"),
        ("python", "ort"),
    ],
)
def test_a_breach_of_the_layers_of_csrc_is_seen(own: str, seen: str) -> None:
    assert not may_include(own, seen)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(CSRC).as_posix())
def test_a_source_includes_only_what_its_part_may_see(path: Path) -> None:
    own = part_of(path.relative_to(CSRC).as_posix())
    for included in re.findall(r'^#include "(.+)"', path.read_text(encoding="utf-8"), re.MULTILINE):
        assert (CSRC / included).is_file(), f"{included}: expected a path from csrc/"
        assert may_include(own, part_of(included)), f"{own} may not see {included}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(CSRC).as_posix())
def test_foreign_headers_stay_in_their_folder(path: Path) -> None:
    headers = re.findall(r"^#include <(.+)>", path.read_text(encoding="utf-8"), re.MULTILINE)
    if path.relative_to(CSRC).as_posix() in INTRINSICS:
        headers.remove("immintrin.h")
    own = part_of(path.relative_to(CSRC).as_posix())
    assert own == "python" or not [h for h in headers if h.startswith("pybind11/") or h == "Python.h"]
    assert not [h for h in headers if "onnxruntime" in h], "the ABI is our own declaration"
    if own in ("kernels", "kernels.h", "numerics"):
        assert set(headers) <= KERNEL_STANDARD_HEADERS
