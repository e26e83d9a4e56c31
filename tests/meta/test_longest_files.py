"""The files of tests that begin first are there."""

from pathlib import Path

from conftest import LONGEST

TESTS = Path(__file__).parents[1]


def test_every_file_that_begins_first_is_there() -> None:
    assert [name for name in LONGEST if not (TESTS / name).is_file()] == []
