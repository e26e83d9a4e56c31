"""The declarations of csrc/ort hold against the installed onnxruntime, and a wrong one would be noticed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SLOTS = re.findall(r"^ORT_SLOT\(\d+, \d+, (\w+),", (ROOT / "csrc/ort/ort_slots.inc").read_text("ascii"), re.MULTILINE)


def probe_session(library: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    script = Path(__file__).with_name("probe_session.py")
    command = [sys.executable, str(script), str(library)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


def test_every_slot_tells_the_truth(probe: Path) -> None:
    result = probe_session(probe)
    assert result.returncode == 0, result.stderr
    assert set(re.findall(r"^probe: (\w+)$", result.stderr, re.MULTILINE)) == set(SLOTS)


# Freeing an object as if it were of a similar type can go unnoticed, so those rows are left to ort_abi_layout.cc.
@pytest.mark.parametrize("slot", [slot for slot in SLOTS if not slot.startswith("Release")])
def test_an_index_that_is_off_by_one_is_noticed(probe: Path, slot: str) -> None:
    result = probe_session(probe, QUARKFAST_PROBE_SHIFT=slot)
    assert result.returncode != 0
    assert f"probe: {slot}\n" in result.stderr


def test_each_slot_has_a_caller_in_the_library() -> None:
    sources = "".join(
        path.read_text("ascii") for path in (ROOT / "csrc/ort").rglob("*") if path.suffix in (".cc", ".h")
    )
    assert [slot for slot in SLOTS if f"slot::{slot}>" not in sources] == []
