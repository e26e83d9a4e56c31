"""The site: ``sphinx-build -W docs build/site``. Its pages are Markdown, its reference comes from docstrings."""

import re
from itertools import groupby
from pathlib import Path
from typing import Any

import quarkfast

DOCS = Path(__file__).parent
ROOT = DOCS.parent

project = "quarkfast"
author = "quarkfast authors"
release = quarkfast.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinxcontrib.mermaid"]
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
html_theme = "furo"
html_title = f"quarkfast {release}"
html_show_copyright = False
napoleon_custom_sections = ["Source"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"

# Links that lead from the pages to files beside docs/, and the pages of the site that show these.
OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "README.md": "index.md"}

# Folders of the public names, from what a user begins with to what a researcher looks up, and the titles they have.
CHAPTERS = {
    "pipeline": "Quantize and calibrate",
    "evaluate": "Evaluate",
    "config": "Configure",
    "compat": "AMD Quark's names",
    "targets": "Targets",
    "calibration": "Samples",
    "statistics": "Statistics",
    "kernels": "Kernels",
    "graph": "Schemas",
    "ort": "ONNX Runtime",
    "errors": "Errors",
}


def public_names() -> dict[str, list[str]]:
    """Returns the public names by the module that each comes from, as the package's stub lists them."""
    stub = (ROOT / "python/quarkfast/__init__.pyi").read_text()
    rows = re.findall(r"^from quarkfast\.(\S+) import (\w+)", stub, re.M)
    return {module: [name for _, name in group] for module, group in groupby(rows, key=lambda row: row[0])}


def reference() -> str:
    """Returns the page of all public names, by chapter."""
    lines = ["# Python", "", "Every public name of the package, from the docstrings."]
    for folder, title in CHAPTERS.items():
        lines += ["", f"## {title}"]
        for module, names in public_names().items():
            if module.split(".")[0] == folder:
                for name in names:
                    lines += ["", "```{eval-rst}", f".. {directive(name)}:: quarkfast.{name}", "```"]
    return "\n".join(lines) + "\n"


def directive(name: str) -> str:
    """Returns what autodoc calls the kind of a public name."""
    value = getattr(quarkfast, name)
    if isinstance(value, type):
        return "autoexception" if issubclass(value, Exception) else "autoclass"
    return "autofunction" if callable(value) else "autodata"


def lead_inside(app: Any, page: str, source: list[str]) -> None:
    """Has links to files beside docs/ lead to the pages that show them."""
    for name, inside in OUTSIDE.items():
        source[0] = re.sub(rf"\]\((?:\.\./)+{re.escape(name)}", f"](/{inside}", source[0])


def write_reference(app: Any) -> None:
    """Writes the page of the Python interface, if it has changed."""
    page, text = DOCS / "python.md", reference()
    if not page.exists() or page.read_text() != text:
        page.write_text(text)


def setup(app: Any) -> None:
    """Connects the functions above to the build."""
    app.connect("builder-inited", write_reference)
    app.connect("source-read", lead_inside)
