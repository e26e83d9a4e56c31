"""A short run of every fuzz target: the calls that a long run begins with."""

from __future__ import annotations

from pathlib import Path

import pytest

from quarkfast import _core

from .__main__ import run_batch
from .batch import recorded
from .draw import Draw
from .targets import TARGETS

CASES = 100
# Enough for each type of each target to be drawn.
DRAWS = 200
# What _core offers beside kernels.
NO_KERNELS = {"active_isa", "available_isas", "use_isa", "num_threads", "set_num_threads"}


@pytest.mark.parametrize("name", TARGETS)
def test_random_calls_answer_as_the_reference_or_refuse_with_a_sentence(name: str, tmp_path: Path) -> None:
    findings = run_batch(name, 0, 0, CASES, tmp_path / "progress")
    assert not findings, "\n".join(finding["problem"] for finding in findings)


def test_every_native_kernel_is_reached() -> None:
    reached = set()
    for target in TARGETS.values():
        for index in range(DRAWS):
            arguments = target.draw(Draw(0, index))
            reached |= {name for name, _ in recorded(lambda target=target, given=arguments: target.call(**given))}
    functions = {name for name in dir(_core) if name[0].islower()}
    assert reached == functions - NO_KERNELS
