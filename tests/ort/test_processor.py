"""Running a command as on another processor: what onnxruntime then computes, and what quarkfast chooses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.processor.__main__ import lacking
from tools.processor.profiles import PROFILES, Profile

ROOT = Path(__file__).parents[2]
PROBE = "from support.processors import saturates as s; import quarkfast as q; print(int(s()), *q.available_isas())"
EXPECTED = {
    "v2": (False, ["x86-64-v2"]),
    "avx2": (True, ["x86-64-v3", "x86-64-v2"]),
    "avx2-vnni": (False, ["x86-64-v3", "x86-64-v2"]),
    "avx512": (True, ["x86-64-v4", "x86-64-v3", "x86-64-v2"]),
    "avx512-vnni": (False, ["x86-64-v4", "x86-64-v3", "x86-64-v2"]),
}


@pytest.mark.parametrize("profile", PROFILES)
def test_sums_saturate_where_a_processor_has_no_vnni(profile: str) -> None:
    if sentence := lacking(profile):
        pytest.skip(sentence)
    program = f"import sys; sys.path.append({str(ROOT / 'tests')!r}); {PROBE}"
    command = [sys.executable, "-m", "tools.processor", profile, sys.executable, "-c", program]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not found.returncode, found.stderr
    saturates, *isas = found.stdout.split()
    assert (bool(int(saturates)), isas) == EXPECTED[profile]


def test_a_feature_that_the_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROFILES, "later", Profile(("avx1024",), "a processor of another time"))
    assert lacking("later") == "later: expected a processor with avx1024, got one without"


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    if sentence := lacking("v2"):
        pytest.skip(sentence)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert lacking("v2") == "v2: expected no-such-compiler among the commands, got none"


def test_a_profile_keeps_its_own_features_and_no_later_ones() -> None:
    masks = {tuple(each.split(":")[:2]): each.split(":")[2:] for each in PROFILES["avx2-vnni"].masks().split()}
    assert masks["7", "1"] == ["10", "0", "0", "0"]  # AVX-VNNI alone
    assert masks["24", "ffffffff"] == ["0"] * 4
    ebx = int(masks["7", "0"][1], 16)
    assert ebx >> 5 & 1  # AVX2 stays
    assert not ebx >> 16 & 1  # AVX-512 goes
