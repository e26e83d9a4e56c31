"""The scripts of examples/ run as somebody would run them, and find what they say."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda name: runpy.run_path(os.fspath(EXAMPLES / f"{name}.py"), run_name="__main__")


def test_every_example_is_tested_here():
    tests = {name.removeprefix("test_example_") for name in globals() if name.startswith("test_example_")}
    assert tests == {path.stem for path in EXAMPLES.glob("*.py")}


def test_example_classification(run):
    found = run("classification")
    # Of 500 images two may change sides: the standard deviation of 99.4 % is 0.35 points.
    assert found["before"] - found["after"] <= 0.4


def test_example_detection_head(run):
    found = run("detection_head")
    # One scale for both would have steps of a 127th of the largest box: every score, up to 1, would be lost or doubled.
    assert found["largest"] / 127 > 1
    assert found["errors"]["scores"] < 0.1
    assert found["errors"]["boxes"] < found["largest"] / 10


def test_example_transformer_text(run):
    # 20 dB of noise, a tenth of the amplitude, turn a vector by acos(1 / sqrt(1 + 0.01)): a cosine of 0.995.
    assert all(cosine > 0.995 for cosine in run("transformer_text")["similarity"].values())


def test_example_language_model_weights(run):
    ratios = run("language_model_weights")["ratios"]
    # Normal weights in groups of 32 of 4 bits have 20 dB, of 8 bits 24 more; three layers follow each other.
    assert ratios["INT8_WO"] > 30
    assert min(ratios["INT4_WO"], ratios["MATMUL_NBITS"]) > 14


def test_example_from_quark(run):
    assert run("from_quark")["top1"] > 98
