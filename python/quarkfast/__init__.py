"""quarkfast: post-training quantization of ONNX models with native kernels, for NPUs and CPUs.

Public names are imported when they are first used, so that ``import quarkfast`` loads no other package. The stub
``__init__.pyi`` states them, each once.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any


@cache
def _homes() -> dict[str, str]:
    """Returns the module of each public name."""
    import ast
    from pathlib import Path

    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from quarkfast._version import version

        return version()
    if name == "__all__":
        return [*sorted(_homes()), "__version__"]
    if name.endswith("_QCONFIG"):
        from quarkfast.config.quark import ready_made

        return ready_made(name)  # a fresh object each time, so that changing it changes nothing for others
    if name not in _homes():
        raise AttributeError(f"module 'quarkfast' has no attribute '{name}'")
    value = getattr(importlib.import_module(_homes()[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*sorted(_homes()), "__version__"]
