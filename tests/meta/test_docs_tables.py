"""The tables of docs/ are those of the source, and a row that is added to one is in the help and on the page."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from quarkfast import kernels
from tools import kernels_page
from tools.docs_tables import DOCS, PLACES, written

PAGES = [(page, name) for page, places in PLACES.items() for name in places]


@pytest.mark.parametrize(("page", "name"), PAGES, ids=" ".join)
def test_a_table_of_a_page_is_that_of_the_source(page, name):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert written(text, name, PLACES[page][name]()) == text, "expected what `python -m tools.docs_tables` writes"


def test_the_page_of_kernels_has_every_kernel():
    functions = {name for name in kernels.__all__ if inspect.isfunction(getattr(kernels, name))}
    assert functions <= {name for names in kernels_page.GROUPS.values() for name in names}


def test_a_page_without_a_place_for_the_table_is_refused():
    with pytest.raises(
        ValueError, match=r"page: expected '<!-- options: written by .* -->' and .*, got neither or one"
    ):
        written("# Page\n", "options", "| table |")


def said(program: str) -> str:
    """What a fresh interpreter prints, with the modules that this one sees."""
    program = f"import sys; sys.path[:] = {sys.path!r}\n{program}"
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


METHOD = """
from quarkfast.ranges import registry
registry._BY_NAME["half"] = registry.RangeMethod(name="half", module="mine", range="half of the extremes")
from quarkfast.cli import main
from tools.docs_tables import methods_table
main(["quantize", "--help-all"])
print(methods_table())
"""


def test_the_row_of_a_range_method_is_in_the_help_and_on_the_page():
    text = said(METHOD)
    assert "half." in " ".join(text.split())
    assert "| `half` | half of the extremes |  |" in text


OPTION = """
from quarkfast.config.options import changes, kinds, table
row = table.Option("rows", kinds.COUNT, changes.set_field("batch_size"), table.GROUPS[0], "Rows a run.", "RowsARun")
table._BY_NAME[row.name] = row
from quarkfast.cli import main
from quarkfast.config import scheme_from
from tools.docs_tables import options_table
main(["quantize", "--help-all"])
print(options_table())
print(scheme_from("A8W8", {"RowsARun": 3}).batch_size)
"""


def test_the_row_of_an_option_is_in_the_help_and_on_the_page_and_is_applied():
    text = said(OPTION)
    assert "--rows" in text
    assert "| `--rows` | an integer greater than 0 | Rows a run (`RowsARun`) |" in text
    assert text.splitlines()[-1] == "3"
