"""Quality targets where weights alone have codes, or activations are rounded as they come."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import quarkfast
from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.pipeline.wide_bytes import stored_shares
from support.tiny_models import run_exactly, tiny_model
from support.weight_models import tied_model

INPUTS, UNITS = 64, 48
TEXT = """g (float[N, 64] x) => (float[N, 8] y) {
    a = MatMul (x, w1)
    b = Relu (a)
    c = MatMul (b, w2)
    d = Relu (c)
    y = MatMul (d, w3)
}"""
SHAPES = {"w1": (INPUTS, UNITS), "w2": (UNITS, UNITS), "w3": (UNITS, 8)}


def _model():
    rng = np.random.default_rng(3)
    return tiny_model(TEXT, {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in SHAPES.items()})


def _samples(count=400, seed=2):
    """Mixtures of six numbers: what rounding to nearest knows nothing of."""
    rng, mixture = np.random.default_rng(seed), np.random.default_rng(1).normal(size=(6, INPUTS))
    return (rng.normal(size=(count, 6)) @ mixture).astype(np.float32)


def _quantized(preset, least, **options):
    return quarkfast.quantize(_model(), preset=preset, calibration_data=_samples(), min_sqnr=least, **options)


def _levers(made):
    return [each.lever for each in made.summary.levers]


# With each preset: a ratio that nearest codes do not have and those of descent do, and one that is out of reach.
TARGETS = {"INT8_WO": (42.0, 90.0), "INT4_WO": (16.5, 90.0), "MATMUL_NBITS": (16.5, 90.0)}


@pytest.mark.parametrize("preset", list(TARGETS))
def test_codes_by_outputs_come_first(preset):
    least, _ = TARGETS[preset]
    made = _quantized(preset, least)
    asked, rounded = made.summary.levers
    assert asked.assured < least <= rounded.assured
    assert _levers(made) == ["as asked", "rounding=descent"]
    # 16 samples are held apart.
    alone = quarkfast.quantize(_model(), preset=preset, calibration_data=_samples()[:384], rounding="descent")
    assert made.model_bytes == alone.model_bytes


@pytest.mark.parametrize("preset", list(TARGETS))
def test_more_scales_and_more_bits_come_next(preset):
    made = _quantized(preset, TARGETS[preset][1])
    groups = [] if preset == "INT8_WO" else ["group_size=32"]
    names = _levers(made)
    assert names[: 2 + len(groups)] == ["as asked", "rounding=descent", *groups]
    assert names[2 + len(groups)].startswith("weights that alone leave ")
    assert "min_sqnr: 90 dB cannot be met" in made.summary.notes[-1]
    ratios = [each.sqnr for each in made.summary.levers if each.kept]
    assert ratios == sorted(ratios)
    assert made.summary.above_8_bits.weights <= 0.25


def _bits(made):
    """Returns name of a weight -> bits of what stands for it."""
    stored = {each.name: each for each in made.proto.graph.initializer}
    bits = {name: numpy_helper.to_array(stored[f"{name}_float16"]).itemsize * 8
            for name in SHAPES if f"{name}_float16" in stored}  # fmt: skip
    for name in SHAPES.keys() - bits.keys():
        if f"{name}_nbits" in stored:
            bits[name] = stored[f"{name}_nbits"].dims[-1] * 8 // 128
        else:
            bits[name] = 4 if stored[f"{name}_quantized"].data_type in (TensorProto.INT4, TensorProto.UINT4) else 8
    return bits


FEW_BITS = [
    ("INT8_WO", {"weight_type": "int4"}),
    ("INT4_WO", {}),
    ("INT4_WO", {"weight_symmetric": False}),
    ("INT4_WO", {"weight_type": "uint4"}),
    ("MATMUL_NBITS", {}),
    ("MATMUL_NBITS", {"weight_symmetric": False}),
]


@pytest.mark.parametrize(("preset", "options"), FEW_BITS, ids=str)
def test_weights_of_fewer_bits_that_matter_have_8(preset, options):
    made = _quantized(preset, 24.0, max_above_8_bits=0.0, group_size=128, **options)
    *_, last = made.summary.levers
    assert last.kept
    assert last.lever.startswith("weights that alone leave ")
    assert last.assured >= 24.0
    assert made.summary.above_8_bits.weights == 0
    assert 8 in _bits(made).values()
    assert not {*_bits(made).values()} - {4, 8}
    assert any("have 8 bits" in note or "has 8 bits" in note for note in made.summary.notes)
    x = _samples(24, 7)
    asked = quarkfast.quantize(_model(), preset=preset, calibration_data=_samples(), **options)
    expected, got, had = (run_exactly(each, {"x": x})[0] for each in (_model(), made.proto, asked.proto))
    assert np.square(got - expected).sum() < np.square(had - expected).sum() / 2


@pytest.mark.parametrize(("preset", "options"), FEW_BITS, ids=str)
def test_those_that_8_bits_cannot_carry_have_16(preset, options):
    made = _quantized(preset, 60.0, max_above_8_bits=0.6, group_size=128, **options)
    bits = _bits(made)
    assert {*bits.values()} == {8, 16}
    wide = sum(np.prod(SHAPES[name]) for name, each in bits.items() if each == 16)
    assert made.summary.above_8_bits.weights == pytest.approx(wide / sum(map(np.prod, SHAPES.values())))
    (note,) = (each for each in made.summary.notes if each.startswith("weights:"))
    assert sum(int(found) for found in re.findall(r"(\d) \('", note)) == len(SHAPES)  # each is counted once


@pytest.mark.parametrize("preset", ["INT4_WO", "MATMUL_NBITS"])
def test_biases_are_corrected_for_the_codes_of_8_bits(preset):
    """The mean of what a layer adds too much is what its bias takes off."""
    rng = np.random.default_rng(6)
    arrays = {"w": rng.normal(0, 0.2, (INPUTS, 8)), "b": rng.normal(0, 1, 8)}
    text = f"g (float[N, {INPUTS}] x) => (float[N, 8] y) {{ y = Gemm (x, w, b) }}"
    model = tiny_model(text, {name: array.astype(np.float32) for name, array in arrays.items()})
    x = (rng.normal(0, 0.1, (64, INPUTS)) + rng.normal(size=INPUTS)).astype(np.float32)
    given = {"preset": preset, "calibration_data": x, "min_sqnr": 60.0, "rounding": "nearest", "group_size": 32}
    made, plain = (quarkfast.quantize(model, bias_correction=each, **given) for each in (True, False))
    (expected,), *found = (run_exactly(each, {"x": x}) for each in (model, made.proto, plain.proto))
    assert [each.summary.levers[-1].lever[:7] for each in (made, plain)] == ["weights", "weights"]
    off, before = (np.abs((got - expected).mean(axis=0)).max() for (got,) in found)
    assert off < before / 4


def test_all_have_8_bits_where_the_first_samples_say_that_none_needs_them():
    rng = np.random.default_rng(6)
    arrays = {"w": rng.normal(0, 0.2, (INPUTS, 8)), "b": rng.normal(0, 1, 8)}
    text = f"g (float[N, {INPUTS}] x) => (float[N, 8] y) {{ y = Gemm (x, w, b) }}"
    model = tiny_model(text, {name: array.astype(np.float32) for name, array in arrays.items()})
    x = rng.normal(size=(64, INPUTS)).astype(np.float32)
    x[:8] *= 1e-4  # of which any weights make nearly the same
    given = {"calibration_data": x, "rounding": "nearest", "weight_type": "int4", "bias_correction": False}
    made = quarkfast.quantize(model, preset="INT8_WO", min_sqnr=30.0, **given)
    assert _levers(made) == ["as asked", "no weights of fewer than 8 bits"]
    assert made.summary.levers[-1].assured >= 30


def test_packed_products_have_no_8_bits_where_onnxruntime_does_not_compute_them(monkeypatch):
    monkeypatch.setattr("quarkfast.ort.runtime_version", lambda: "1.22.1")
    made = _quantized("MATMUL_NBITS", 60.0, max_above_8_bits=0.9)
    assert {*_bits(made).values()} <= {4, 16}
    assert 16 in _bits(made).values()


@pytest.mark.parametrize(
    ("options", "levers"),
    [
        ({"strict": True}, ["as asked", "rounding=descent"]),
        ({"max_above_8_bits": 0.0}, ["as asked", "rounding=descent"]),
        ({"max_above_8_bits": 0.0, "rounding": "gptq"}, ["as asked"]),
        ({"max_above_8_bits": 0.0, "group_size": 32}, ["as asked", "rounding=descent"]),
        ({"max_above_8_bits": 0.0, "group_size": 64}, ["as asked", "rounding=descent"]),
    ],
)
def test_what_is_given_stays(options, levers):
    assert _levers(_quantized("INT8_WO", 90.0, **options)) == levers


def test_layers_of_dynamic_stay_float_for_it():
    asked, *wider = _quantized("DYNAMIC", 90.0, max_above_8_bits=0.9).summary.levers
    assert asked.lever == "as asked"
    assert any(each.kept and each.bytes > asked.bytes for each in wider)


def test_a_table_that_is_transposed_for_a_product_may_have_16_bits():
    model, x = tied_model(), np.random.default_rng(3).integers(0, 300, 400)
    given = {"calibration_data": x, "min_sqnr": 60.0, "max_above_8_bits": 1.0}
    made = quarkfast.quantize(model, preset="MATMUL_NBITS", exclude_op_types=["Gather"], **given)
    (expected,), (got,) = run_exactly(model, {"x": x[:9]}), run_exactly(made.proto, {"x": x[:9]})
    assert np.square(got - expected).sum() < 10**-6 * np.square(expected).sum()


def test_a_metric_is_asked_for():
    x = _samples(64, 9)
    answers = run_exactly(_model(), {"x": x})[0].argmax(axis=1)

    def right(session, _):
        return 100 * float(np.mean(session.run(None, {"x": x})[0].argmax(axis=1) == answers))

    given = {"preset": "INT4_WO", "calibration_data": _samples(), "max_above_8_bits": 0.9}
    asked, *others = quarkfast.quantize(_model(), max_drop=9.0, metric=right, **given).summary.levers
    assert asked.metric < 91 <= others[-1].metric


def test_the_command_line_shows_the_levers(tmp_path, capsys):
    onnx.save(_model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=_samples())
    given = ["quantize", tmp_path / "m.onnx", "-o", tmp_path / "q.onnx", "--calibration-data", tmp_path / "x.npz"]
    assert main([*map(str, given), "-p", "INT4_WO", "--min-sqnr", "16.5"]) == ExitCode.OK
    shown = " ".join(capsys.readouterr().out.split())
    assert "rounding=descent" in shown
    assert (tmp_path / "q.onnx").read_bytes() == _quantized("INT4_WO", 16.5).model_bytes


@pytest.mark.parametrize(
    ("preset", "options", "share"),
    [
        ("INT8_WO", {}, 0.0),
        ("INT4_WO", {"group_size": 16}, 0.0),  # scales have two axes too
        ("MATMUL_NBITS", {"group_size": 16}, 0.0),
        ("DYNAMIC", {}, 0.0),
        ("INT4_WO", {"exclude": ["matmul_2"]}, 48 * 48 / (64 * 48 + 48 * 48 + 48 * 8)),
        ("MATMUL_NBITS", {"exclude": ["matmul_2"]}, 48 * 48 / (64 * 48 + 48 * 48 + 48 * 8)),
        ("DYNAMIC", {"exclude": ["matmul_2"]}, 48 * 48 / (64 * 48 + 48 * 48 + 48 * 8)),
    ],
)
def test_the_part_of_weights_above_8_bits(preset, options, share):
    made = quarkfast.quantize(_model(), preset=preset, **options)
    assert stored_shares(made.model_bytes) == (1.0, pytest.approx(share))
