"""A change of the code's structure changes no byte of any result: hashes that were recorded before."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

import quarkfast
from tests.recorded.cases import Case, built_cases, hash_of, shared_cases
from tests.recorded.record import RECORD, versions

BUILT = {case.name: case for case in built_cases()}


@cache
def _record() -> dict[str, Any]:
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="ascii"))
    if record["versions"] != versions():
        pytest.skip(f"recorded with {record['versions']}, here are {versions()}: they write parts of a model")
    return record["hashes"]


@pytest.mark.parametrize("name", BUILT)
def test_a_built_model_becomes_what_it_became(name):
    assert hash_of(BUILT[name]) == _record()[name]


def test_a_real_model_becomes_what_it_became(shared):
    cases = {case.name: case for case in shared_cases(shared / "models")}
    recorded = {name: each for name, each in _record().items() if name.startswith("shared-")}
    assert {name: hash_of(cases[name]) for name in recorded} == recorded


def test_every_recorded_case_is_here():
    assert {name for name in _record() if not name.startswith("shared-")} == set(BUILT)


def test_another_scale_is_another_hash():
    case = BUILT["demo-A8W8"]
    other = Case(case.name, case.model, case.preset, {"reduce_range": True})
    assert hash_of(case) != hash_of(other)


def test_every_instruction_set_gives_the_recorded_bytes(isa):
    names = [name for name in BUILT if name.startswith(("demo-", "attention-"))]
    assert {name: hash_of(BUILT[name]) for name in names} == {name: _record()[name] for name in names}


def test_every_preset_and_method_is_recorded():
    methods = {each.options["method"] for each in BUILT.values() if "method" in each.options}
    assert {case.preset for case in BUILT.values()} == set(quarkfast.PRESETS)
    assert methods >= {"percentile", "entropy", "minmse", "distribution", "layerwise_percentile", "nonoverflow"}
