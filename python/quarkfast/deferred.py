"""onnx_ir without sympy, until symbolic dimensions are computed with, which nothing here does.

sympy is two thirds of the time that importing onnx_ir takes (0.4 of 0.6 seconds) and 32 MB. `importlib.util.LazyLoader`
puts it off to the first use of one of its names, which works as before.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["ir", "passes"]

_LATER = ("sympy", "onnx_ir._symbolic_shapes")


class _Finder:
    """Finds the modules of `_LATER` as others would, and has them run on first use."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name in _LATER else None
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


@contextmanager
def _deferring() -> Iterator[None]:
    sys.meta_path.insert(0, _Finder)
    try:
        yield
    finally:
        sys.meta_path.remove(_Finder)


with _deferring():
    import onnx_ir as ir
    from onnx_ir.passes import common as passes
