"""`max_above_8_bits`: how much of the bytes levers of a quality target may give more than 8 bits."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.quantization.weight_precision import USUAL
from quarkfast.search.quality import Quality
from quarkfast.search.quality_goal import QualityGoal
from support.quality_models import model, samples
from support.tiny_models import tiny_model

# What no model has, so that every lever is pulled.
_OUT_OF_REACH = 200.0


def quantized(preset: str = "A8W8", **options) -> quarkfast.QuantizedModel:
    given = {"min_sqnr": _OUT_OF_REACH, "shift_activations": False, "rounding": "nearest"} | options
    return quarkfast.quantize(model(), preset=preset, calibration_data=samples(), **given)


@pytest.mark.parametrize("preset", ["A8W8", "XINT8"])
@pytest.mark.parametrize("most", [0.0, 0.25, 0.6, 1.0])
def test_no_lever_gives_more_of_the_bytes_more_than_8_bits(preset, most):
    shares = quantized(preset, max_above_8_bits=most).summary.above_8_bits
    assert max(shares) <= most
    assert (max(shares) > 0) == (most > 0)


@pytest.mark.parametrize("preset", ["A8W8", "XINT8"])
def test_the_more_may_have_more_bits_the_better_the_outputs(preset):
    given = {"output_bias_correction": False}
    ratios = [quantized(preset, max_above_8_bits=most, **given).summary.levers for most in (0.0, 0.25, 1.0)]
    best = [max(each.sqnr for each in levers if each.kept) for levers in ratios]
    assert best == sorted(best)
    assert best[2] > best[0] + 3


def test_a_quarter_is_what_is_taken_where_nothing_is_said():
    assert quantized().model_bytes == quantized(max_above_8_bits=0.25).model_bytes


def transform_and_network() -> onnx.ModelProto:
    """Returns a model whose first half, a transform of the input, stays float."""
    rng = np.random.default_rng(0)
    angle = 2 * np.pi * np.arange(1, 17)[:, None] * np.arange(32) / 32
    weights = {"w": np.sin(angle)[:, None], "k": rng.normal(0, 0.3, (24, 16, 3)), "l": rng.normal(0, 0.3, (4, 24, 1))}
    text = """g (float[N, 1, 512] x) => (float[N, 4, M] y) {
        c = Conv<strides = [16]>(x, w)  p = Mul(c, c)  f = Max(p, floor)  a = Log(f)
        b = Conv(a, k)  r = Relu(b)  y = Conv(r, l)
    }"""
    constants = {name: each.astype(np.float32) for name, each in weights.items()}
    return tiny_model(text, constants | {"floor": np.float32(1e-4)})


def test_a_target_that_was_missed_names_more_than_what_stays_float_by_itself():
    rng = np.random.default_rng(1)
    sounds = (10 ** rng.uniform(-2, 0, (32, 1, 1)) * rng.normal(size=(32, 1, 512))).astype(np.float32)
    given = {"preset": "A8W8", "calibration_data": sounds, "min_sqnr": _OUT_OF_REACH, "rounding": "nearest"}
    found = quarkfast.quantize(transform_and_network(), **given).summary
    share = found.above_8_bits.activations
    assert share > 0.25
    assert not any(each.lever.startswith("int16") for each in found.levers)
    assert found.notes[-1].endswith(
        f"max_above_8_bits above {np.ceil(100 * share) / 100:g} lets levers widen more of the bytes"
    )
    more = quarkfast.quantize(transform_and_network(), **given, max_above_8_bits=0.99).summary
    assert any(each.lever.startswith("int16") and each.kept for each in more.levers)
    assert share < more.above_8_bits.activations <= 0.99


def test_a_target_that_was_missed_says_what_allows_more():
    notes = quantized(max_above_8_bits=0.5).summary.notes
    assert any(note.endswith("; max_above_8_bits above 0.5 lets levers widen more of the bytes") for note in notes)
    assert not any("max_above_8_bits" in note for note in quantized(max_above_8_bits=1.0).summary.notes)
    goal = QualityGoal(
        max_drop=1.0, metric=lambda session, data: 0.0, largest_share=0.0, reference=Quality(np.inf, 90.0)
    )
    (note,) = goal.notes(Quality(10.0, 80.0), 0.0)
    assert note.endswith("a drop of 1 cannot be met; max_above_8_bits above 0 lets levers widen more of the bytes")


def test_forms_of_weights_that_cost_bytes_keep_to_it():
    assert USUAL.largest_share == QualityGoal().largest_share == 0.25


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_above_8_bits": 25}, "max_above_8_bits: expected a part of the bytes from 0 to 1, got 25"),
        ({"max_above_8_bits": -0.1}, "max_above_8_bits: expected a part of the bytes from 0 to 1, got -0.1"),
        ({"max_above_8_bits": float("nan")}, "max_above_8_bits: expected a part of the bytes from 0 to 1, got nan"),
        (
            {"max_above_8_bits": 0.5, "min_sqnr": None},
            "max_above_8_bits: expected min_sqnr or max_drop, whose levers it limits, got neither",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(quarkfast.ConfigError, match=message):
        quantized(**options)


def test_the_command_line_takes_it(tmp_path):
    onnx.save(model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=samples())
    paths = ["-o", tmp_path / "q.onnx", "--report", tmp_path / "r.json", "--calibration-data", tmp_path / "x.npz"]
    target = ["--min-sqnr", "200", "--max-above-8-bits", "0", "--rounding", "nearest"]
    assert main(list(map(str, ["quantize", tmp_path / "m.onnx", *paths, *target]))) == ExitCode.OK
    assert json.loads((tmp_path / "r.json").read_text())["above_8_bits"] == {"activations": 0.0, "weights": 0.0}
