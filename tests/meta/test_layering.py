"""Who may see whom: reads every import and #include and holds it against the layers of the architecture."""

import ast
import re
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "quarkfast"
CSRC = ROOT / "csrc"

# A module sees those above it; siblings of one line do not see each other. "quarkfast" is the package's own namespace,
# which imports a public name from where it lives when somebody asks for it.
PYTHON_LAYERS = [
    ["_core", "_version", "deferred", "errors", "wording"],
    ["atomic_files", "formats"],
    ["kernels", "reference"],
    ["qparams", "statistics"],
    ["ranges"],
    ["config"],
    ["graph", "ort", "checkpoint"],
    ["transforms", "calibration", "evaluate"],
    ["targets", "reconstruction"],
    ["algorithms", "quantization"],
    ["writers"],
    ["report"],
    ["pipeline"],
    ["search"],
    ["demo", "tools"],
    ["quarkfast"],
    ["compat", "cli"],
    ["__main__"],
]
RANK = {name: rank for rank, names in enumerate(PYTHON_LAYERS) for name in names}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")

# Where a package from outside may be imported, onnx_ir by way of `quarkfast.deferred`; "" is the whole package.
OUTSIDE = {
    "onnxruntime": ["ort.py"],
    "onnx": [
        "graph",
        "transforms",
        "targets",
        "calibration",
        "evaluate",
        "reconstruction",
        "quantization",
        "pipeline",
        "search",
        "compat/model_quantizer.py",
        "cli/operator_selftest.py",
    ],
    "onnx_ir": ["deferred.py"],
    "quarkfast.deferred": [
        "graph",
        "transforms",
        "targets",
        "calibration",
        "evaluate",
        "reconstruction",
        "algorithms",
        "quantization",
        "writers",
        "pipeline",
        "search",
        "tools",
    ],
    "typer": ["cli"],
    "rich": ["cli"],
    "threadpoolctl": ["reconstruction/blas_threads.py"],
    "safetensors": ["checkpoint"],
    "gguf": ["checkpoint"],
    "torch": [],
    "transformers": [],
}

# The folders of csrc/: each sees itself and those above it, never its siblings of one line. Two files in csrc/ itself
# stand for what is below: kernels.h, the contract, for the kernels, and export.h for the library.
CPP_LAYERS = [["numerics"], ["kernels"], ["runtime"], ["tensor", "stats", "ranges"], ["ort", "python"]]
CPP_RANK = {name: rank for rank, names in enumerate(CPP_LAYERS) for name in names}
CPP_FILES = {"kernels.h": "kernels", "export.h": "runtime"}
KERNEL_STANDARD_HEADERS = {"cmath", "cstddef", "cstdint", "cstring", "limits"}
# Kernels that use instructions by name, each with its measurement in the file.
INTRINSICS = {"kernels/convert_f16.inl.h", "kernels/histogram.inl.h"}
SOURCES = sorted(path for path in CSRC.rglob("*") if re.search(r"\.(h|cc|in|inc)$", path.name))


def module_of(path: Path) -> str:
    """The full name of the module of a file."""
    parts = ("quarkfast", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(module: str) -> str:
    """The folder or file of the package that a module belongs to, ``quarkfast`` for the package itself."""
    return module.split(".")[1] if "." in module else module


def imports_of(path: Path, *, run_only: bool = False) -> Iterator[str]:
    """Every imported name in full, wherever in the file the import stands; `run_only` leaves out those for types."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types: set[ast.AST] = set()
    for node in ast.walk(tree):
        if run_only and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for_types.update(ast.walk(node))
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: expected absolute imports"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


MODULES = {module_of(path): path for path in FILES} | {"quarkfast": PACKAGE / "__init__.py"}


def modules_seen(path: Path, *, run_only: bool = False) -> set[str]:
    """The modules of this package that a file imports; ``_core`` is one, and a public name is of ``quarkfast``."""
    seen = set()
    for name in imports_of(path, run_only=run_only):
        if name == "quarkfast._core" or name in MODULES:
            seen.add(name)
        elif name.partition(".")[0] == "quarkfast":
            seen.add(name.rpartition(".")[0])
    return seen


def breaches(module: str, seen: Iterable[str]) -> list[str]:
    """The modules of `seen` that lie in no layer below `module`, nor in its own folder."""
    own = layer_of(module)
    return sorted(each for each in seen if layer_of(each) != own and RANK[layer_of(each)] >= RANK[own])


def test_every_module_has_a_layer() -> None:
    assert {layer_of(module_of(path)) for path in FILES} <= set(RANK)


def test_a_module_sees_only_the_layers_below_it() -> None:
    found = {module_of(path): breaches(module_of(path), modules_seen(path)) for path in FILES}
    assert {module: seen for module, seen in found.items() if seen} == {}


@pytest.mark.parametrize(
    ("text", "breach"),
    [
        ("import quarkfast", "quarkfast"),
        ("def late():\n    from quarkfast import quantize", "quarkfast"),
        ("from quarkfast.pipeline import summary", "quarkfast.pipeline.summary"),
        ("from quarkfast.calibration.data import DataReader", "quarkfast.calibration.data"),
    ],
)
def test_a_breach_of_the_layers_is_seen(tmp_path: Path, text: str, breach: str) -> None:
    source = tmp_path / "source.py"
    source.write_text(text, encoding="utf-8")
    assert breaches("quarkfast.graph.load", modules_seen(source)) == [breach]


def test_no_modules_import_each_other_in_a_circle() -> None:
    order = TopologicalSorter(
        {module: modules_seen(path, run_only=True) - {module} for module, path in MODULES.items()}
    )
    order.prepare()  # raises CycleError, which names the circle


def may_import(where: str, name: str) -> bool:
    """Whether a file of the package, by its path in it, may import a name from outside or of `deferred`."""
    package = "quarkfast.deferred" if name.startswith("quarkfast.deferred.") else name.partition(".")[0]
    allowed = OUTSIDE.get(package)
    return allowed is None or where.startswith(tuple(allowed))


def test_outside_packages_are_imported_only_where_they_belong() -> None:
    imports = [(path.relative_to(PACKAGE).as_posix(), name) for path in FILES for name in imports_of(path)]
    assert [f"{where} may not import {name}" for where, name in imports if not may_import(where, name)] == []


@pytest.mark.parametrize(("where", "name"), [("cli/app.py", "torch"), ("ranges/methods.py", "quarkfast.deferred.ir")])
def test_an_import_where_it_does_not_belong_is_seen(where: str, name: str) -> None:
    assert not may_import(where, name)


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


def included_by(path: Path, pattern: str) -> list[str]:
    """What a file of csrc/ includes, between quotes or between angle brackets."""
    return re.findall(rf"^#include {pattern}", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_a_source_includes_only_what_its_part_may_see() -> None:
    seen = [(path.relative_to(CSRC).as_posix(), name) for path in SOURCES for name in included_by(path, '"(.+)"')]
    assert [f"{where}: {name}: expected a path from csrc/" for where, name in seen if not (CSRC / name).is_file()] == []
    refused = [(where, name) for where, name in seen if not may_include(part_of(where), part_of(name))]
    assert [f"{where} may not see {name}" for where, name in refused] == []


def is_foreign(where: str, header: str) -> bool:
    """Whether a file of csrc/ may not include a header of a library; the ABI of onnxruntime is our own declaration."""
    own = part_of(where)
    if header == "immintrin.h" and where in INTRINSICS:
        return False
    if header.startswith("pybind11/") or header == "Python.h":
        return own != "python"
    return "onnxruntime" in header or (
        own in ("kernels", "kernels.h", "numerics") and header not in KERNEL_STANDARD_HEADERS
    )


def test_foreign_headers_stay_in_their_folder() -> None:
    seen = [(path.relative_to(CSRC).as_posix(), name) for path in SOURCES for name in included_by(path, "<(.+)>")]
    assert [f"{where} may not include {name}" for where, name in seen if is_foreign(where, name)] == []
    assert {where for where, name in seen if name == "immintrin.h"} >= INTRINSICS


@pytest.mark.parametrize(
    ("where", "header"),
    [
        ("ort/kernel.h", "pybind11/numpy.h"),
        ("stats/range.cc", "Python.h"),
        ("ort/kernel.h", "onnxruntime_c_api.h"),
        ("kernels/convert.h", "vector"),
        ("kernels/convert.h", "immintrin.h"),
    ],
)
def test_a_foreign_header_is_seen(where: str, header: str) -> None:
    assert is_foreign(where, header)
