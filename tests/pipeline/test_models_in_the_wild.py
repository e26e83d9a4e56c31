"""Every preset on two models that people ship: the checker passes it, it runs, and keeps names, types and shapes.

How good they become is in `docs/results/wild.md`. What is held here is that the result is a model of the same inputs
and outputs, that it computes finite numbers, that formats which have bits enough stay close, and that the summary names
the outputs that are poor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import onnx
import pytest

import quarkfast
from bench import matrix
from bench.data.wild import RECORDINGS, boxes_and_scores, read_greedily
from quarkfast import ort
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session

# Samples that calibrate and are run.
SAMPLES = {"ppocr_rec": 2, "ppocr_cls": 4, "text_yolox": 1, "basic_pitch": 2}

# Tables leave it out, since its cells are those of INT4_WO.
CASES = {**matrix.CASES, "MATMUL_NBITS": ("MATMUL_NBITS", {})}

# Two models of each case in turn; `test_default_sessions.py` runs all presets on all four.
TWO = tuple(combinations(RECORDINGS, 2))
CELLS = sorted((model, case) for i, case in enumerate(CASES) for model in TWO[i % len(TWO)])

# Least signal-to-noise ratio in dB of what is judged apart: what was measured on the worst of the four models, less
# about 3 dB. A misplaced node or a wrong axis costs tens. Integers of 8 bits and narrow blocks only have to run: on
# these models they leave between 2 and 20 dB, in every tool.
FLOORS = {"FP16_WO": 21, "FP16": 15, "BF16_WO": 14, "BF16": 13, "INT8_WO": 11, "INT4_WO": 11, "MATMUL_NBITS": 11,
          "MX9": 11, "MXINT8": 11, "DYNAMIC": 8}  # fmt: skip

# Outputs below are called poor (docs/accuracy.md, "What the summary measures").
POOR = 12


@pytest.fixture(scope="module", autouse=True)
def _schemas():
    quarkfast.register_schemas()


@dataclass(frozen=True)
class _Wild:
    """A model, its samples, rows of a run, and what its outputs are in float."""

    name: str
    path: Any
    feed: dict[str, Any]
    batch: int
    session: Any
    expected: list[Any]


def _outputs(session, feed, batch):
    count = len(next(iter(feed.values())))
    runs = [ort.run(session, {name: x[i : i + batch] for name, x in feed.items()}) for i in range(0, count, batch)]
    return [np.concatenate(each) for each in zip(*runs, strict=True)]


@cache
def _wild(model, shared):
    found, path = RECORDINGS[model], shared / "models" / f"{model}.onnx"
    feed = found.samples(shared / "data", 0, SAMPLES[model])
    session = exact_session(path)
    return _Wild(model, path, feed, found.batch, session, _outputs(session, feed, found.batch))


def _signature(values):
    """Returns name, type and shape of each; a size that is not known has a name in one model and none in another."""
    return [
        (each.name, each.type, [n if isinstance(n, int) and n > 0 else None for n in each.shape]) for each in values
    ]


def test_the_cases_are_all_presets():
    assert {preset for preset, _ in CASES.values()} == set(quarkfast.PRESETS)


# What is said of two of them is true: a detector that reads 0 to 255, and models without a matrix product.
@pytest.mark.filterwarnings("ignore:calibration data. input 'images'. all values are whole numbers:UserWarning")
@pytest.mark.filterwarnings("ignore:quantize. the model has no weight that can be stored so:UserWarning")
@pytest.mark.parametrize(("model", "case"), CELLS)
def test_a_case_passes_the_checker_runs_and_keeps_inputs_and_outputs(shared, model, case):
    wild, (preset, options) = _wild(model, shared), CASES[case]
    options = {**options, "batch_size": wild.batch}
    result = quarkfast.quantize(wild.path, preset=preset, calibration_data=wild.feed, **options)
    onnx.checker.check_model(result.proto, full_check=True)
    exact = exact_session(result.model_bytes)
    for session in (ort.inference_session(result.model_bytes), exact):  # what is judged below is exact
        assert _signature(session.get_inputs()) == _signature(wild.session.get_inputs())
        assert _signature(session.get_outputs()) == _signature(wild.session.get_outputs())
        got = _outputs(session, wild.feed, wild.batch)
        assert [each.shape for each in got] == [each.shape for each in wild.expected]
        assert all(np.isfinite(each).all() for each in got)
    if case in FLOORS:
        assert min(_ratios(wild, got)) > FLOORS[case]
    if not quarkfast.PRESETS[preset].weights_only:
        _check_what_is_told(wild, exact, result.summary)


def _check_what_is_told(wild, session, summary):
    """Holds the summary against the first sample, which alone it speaks of."""
    first = {name: x[:1] for name, x in wild.feed.items()}
    runs = zip(wild.session.get_outputs(), ort.run(wild.session, first), ort.run(session, first), strict=True)
    poor = {output.name for output, expected, got in runs if sqnr(expected, got) < POOR}
    notes = [note for note in summary.notes if note.startswith("poor outputs")]
    assert len(summary.outputs) == len(wild.expected)
    assert {name for name, _ in summary.outputs if any(repr(name) in note for note in notes)} == poor


def _ratios(wild, got):
    part = boxes_and_scores if wild.name == "text_yolox" else list
    return [sqnr(expected, found) for expected, found in zip(part(wild.expected), part(got), strict=True)]


def test_greedy_reading_joins_repeats_and_drops_blanks():
    steps = [1, 1, 0, 1, 2, 2, 3, 0]
    assert read_greedily(np.eye(4)[[steps]], ["", "a", "b", " "]) == ["aab "]
