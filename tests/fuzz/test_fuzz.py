"""A short run of every fuzz target: the calls that a long run begins with."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from quarkfast import kernels

from .__main__ import run_batch
from .targets import TARGETS

CASES = 100


@pytest.mark.parametrize("name", TARGETS)
def test_random_calls_answer_as_the_reference_or_refuse_with_a_sentence(name: str, tmp_path: Path) -> None:
    findings = run_batch(name, 0, 0, CASES, tmp_path / "progress")
    assert not findings, "\n".join(finding["problem"] for finding in findings)


def test_every_public_kernel_function_has_a_target() -> None:
    functions = {name for name in kernels.__all__ if inspect.isfunction(getattr(kernels, name))}
    assert functions == set(TARGETS)
