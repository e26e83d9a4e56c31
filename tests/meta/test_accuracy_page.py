"""The tables of docs/results: what a new measurement changes in them, and that none of ours is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import overview
from bench.data.wild import RECORDINGS
from bench.matrix import CASES
from bench.tables import Table, put, read_table

PAGE = Path(__file__).parents[2] / "docs" / "results" / "wild.md"
BEFORE = """# Page

## net, 8 samples, SQNR

| case | quarkfast | peer |
| :-- | --: | --: |
| A8W8 | 20.0 dB | 19.0 dB |
| U8S8 |  | 21.0 dB |

## other, 8 samples, SQNR
"""
AFTER = """# Page

## net, 9 samples, SQNR

| case | quarkfast | peer | third |
| :-- | --: | --: | --: |
| A8W8 | 25.0 dB | 19.0 dB |  |
| A16W8 | 30.0 dB |  | 1.0 dB |
| U8S8 |  | 21.0 dB |  |

## other, 8 samples, SQNR
"""


def test_what_was_measured_replaces_its_cells_and_the_others_stay():
    rows = {"A16W8": {"quarkfast": "30.0 dB", "third": "1.0 dB"}, "A8W8": {"quarkfast": "25.0 dB"}}
    table = Table("net", "9 samples, SQNR", ["quarkfast", "third"], rows)
    assert put(BEFORE, table, ["A8W8", "A16W8", "U8S8"]) == AFTER


def test_a_page_without_the_model_is_refused():
    with pytest.raises(ValueError, match="expected a heading that begins with '## absent,', got none"):
        put(BEFORE, Table("absent", "SQNR", ["quarkfast"]), [])


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_case_of_a_model_from_the_wild_is_told(name):
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith(f"## {name},")) + 2
    end = next(index for index in range(start, len(lines)) if not lines[index].startswith("|"))
    rows = read_table(lines[start:end], name).rows
    assert [case for case in CASES if not rows[case]["quarkfast"]] == []


def test_the_overview_shows_the_cells_of_the_tables():
    page = overview.PAGE.read_text(encoding="utf-8")
    assert overview.with_overview(page) == page
    with pytest.raises(ValueError, match="expected the marks"):
        overview.with_overview("# Page\n")
