"""Quality targets where values share exponents in blocks."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.pipeline.wide_bytes import stored_activations, wide_shares
from support.difference_model import PIXELS, difference_model

BLOCKS = ["BFP16", "MX9", "MXINT8"]


def _samples(count=120, seed=1):
    """Rows of pixels that change by a few from one to the next, whole numbers from 129 to 255."""
    steps = np.random.default_rng(seed).integers(-3, 4, (count, PIXELS)).cumsum(axis=1)
    return np.clip(190 + steps, 129, 255).astype(np.float32)


def _quantized(preset, **options):
    return quarkfast.quantize(difference_model(), preset=preset, calibration_data=_samples(), **options)


def _ratio(made):
    feed = {"x": _samples(40, 8)}
    return sqnr(*(exact_session(each).run(None, feed)[0] for each in (difference_model(), made.model_bytes)))


@pytest.mark.parametrize("preset", BLOCKS)
def test_what_blocks_cannot_carry_becomes_bfloat16(preset):
    least = 26.0
    assert _ratio(_quantized(preset)) < least - 6
    made = _quantized(preset, min_sqnr=least)
    assert made.summary.levers[-1].lever.startswith("bfloat16 for 1 activation ('x'; ")
    assert made.summary.levers[-1].kept
    assert made.summary.levers[-1].assured >= least
    assert _ratio(made) > least
    assert 0 < made.summary.above_8_bits.activations <= 0.25
    assert made.summary.above_8_bits.weights == 0
    assert made.model_bytes == _quantized(preset, min_sqnr=least).model_bytes


def test_they_do_where_the_first_samples_have_more_decibels():
    """Eight of them choose: pixels that change by 60 hide a step of two."""
    x = _samples()
    x[:8] = 190 + 60 * (-1.0) ** np.arange(PIXELS)
    made = quarkfast.quantize(difference_model(), preset="BFP16", calibration_data=x, min_sqnr=26.0)
    assert made.summary.levers[-1].lever.startswith("bfloat16 for")
    assert made.summary.levers[-1].assured >= 26


def test_codes_by_outputs_come_first():
    made = _quantized("MX6", min_sqnr=70.0)
    names = [each.lever for each in made.summary.levers]
    assert names.index("rounding=descent") < next(i for i, name in enumerate(names) if name.startswith("bfloat16"))


def test_none_becomes_wider_where_none_may():
    made = _quantized("BFP16", min_sqnr=60.0, max_above_8_bits=0.0)
    assert not any("bfloat16" in each.lever for each in made.summary.levers)
    assert made.summary.above_8_bits.activations == 0
    assert "min_sqnr: 60 dB cannot be met" in made.summary.notes[-1]


@pytest.mark.parametrize(
    ("preset", "stored"),
    [
        ("BFP16", {"x": 128, "b": 128, "d": 512, "y": 16}),
        ("MX9", {"x": 128, "b": 128, "d": 512}),  # operands of products: the rest of such a model is float
    ],
)
def test_blocks_have_8_bits(preset, stored):
    feed = {"x": _samples(2)}
    made = _quantized(preset, tensors={"x": {"dtype": "bfloat16"}})
    assert stored_activations(made.model_bytes, made.summary.records, feed) == stored
    shares = wide_shares(made.model_bytes, made.summary.records, feed)
    assert shares == (pytest.approx(128 / sum(stored.values())), 0.0)


def test_the_command_line_takes_the_target(tmp_path, capsys):
    onnx.save(difference_model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=_samples())
    given = ["quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--calibration-data", tmp_path / "x.npz"]
    assert main([*map(str, given), "-p", "BFP16", "--min-sqnr", "26"]) == ExitCode.OK
    assert "bfloat16 for 1 activation" in " ".join(capsys.readouterr().out.split())
    assert (tmp_path / "q.onnx").read_bytes() == _quantized("BFP16", min_sqnr=26.0).model_bytes
