"""A taste of the fuzzer; `nox -s fuzz` runs it for minutes."""

import pytest

from .fuzz import run_case


@pytest.mark.parametrize("first", range(0, 500, 100), ids=lambda first: f"cases from {first}")
def test_random_models_run_or_are_refused(first: int) -> None:
    outcomes = {run_case(seed).split(": ")[1] for seed in range(first, first + 100)}
    assert outcomes == {"ran", "refused", "failed"}
