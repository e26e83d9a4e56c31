"""``quark.onnx.tools``: each a command, ``python -m quarkfast.compat.quark.onnx.tools.NAME``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

_RUNS = ("__main__", "py")


class _RowFinder(MetaPathFinder, InspectLoader):
    """Makes a module of each row of the table: NAME with its `main`; NAME.__main__ and NAME.py, which run it.

    ``python -m`` wants a module for each name, and Quark's documentation prints some names with ``.py`` behind them.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns how to make a module of the table, or None for others."""
        package, _, rest = fullname.partition(f"{__name__}.")
        name, _, run = rest.partition(".")
        if package or run not in ("", *_RUNS):
            return None
        from quarkfast.compat.quark.onnx.tools.table import COMMANDS  # which imports this package

        return spec_from_loader(fullname, self, is_package=not run) if name in COMMANDS else None

    def get_source(self, fullname: str) -> str:
        """Returns the module's lines."""
        name, _, run = fullname.removeprefix(f"{__name__}.").partition(".")
        lines = f"import sys\nfrom {__name__}.table import COMMANDS\nmain = COMMANDS[{name!r}]\n"
        return lines + ("sys.exit(main())\n" if run else "")


sys.meta_path.append(_RowFinder())
