"""Codes of weights by outputs, beside activations that are quantized when the model runs."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast.evaluate import sqnr
from quarkfast.reconstruction import walk
from support.processors import run_exact
from support.tiny_models import tiny_model

INPUTS, UNITS = 64, 48
PRODUCTS = """g (float[N, 64] x) => (float[N, 8] y) {
    a = MatMul (x, w1)
    b = Relu (a)
    c = Gemm (b, w2, bias)
    d = Relu (c)
    y = MatMul (d, w3)
}"""
CONVOLUTIONS = """g (float[N, 64, 5] x) => (float[N, 8, 3] y) {
    a = Conv (x, k1, bias)
    b = Relu (a)
    y = Conv (b, k2)
}"""
RECURRENT = """g (float[T, N, 64] x) => (float[1, N, 8] y) {
    steps, h = LSTM <hidden_size = 12> (x, w, r)
    y = MatMul (h, v)
}"""
SHAPES = {
    "w1": (INPUTS, UNITS), "w2": (UNITS, UNITS), "w3": (UNITS, 8), "bias": (UNITS,),
    "k1": (UNITS, INPUTS, 3), "k2": (8, UNITS, 1),
    "w": (1, 48, INPUTS), "r": (1, 48, 12), "v": (12, 8),
}  # fmt: skip
ROWS = {PRODUCTS: (1, 6), CONVOLUTIONS: (1, 5, 6), RECURRENT: (10, 1, 6)}
LAYERS = {PRODUCTS: ["w1", "w2", "w3"], CONVOLUTIONS: ["k1", "k2"], RECURRENT: ["w", "r", "v"]}
TEXTS = pytest.mark.parametrize("text", list(ROWS), ids=["products", "convolutions", "recurrent"])


def _model(text):
    rng = np.random.default_rng(3)
    arrays = {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in SHAPES.items()}
    return tiny_model(text, {name: array for name, array in arrays.items() if name in [*LAYERS[text], "bias"]})


def _samples(text, count, seed):
    """Mixtures of six numbers: what rounding to nearest knows nothing of."""
    rng, mixture = np.random.default_rng(seed), np.random.default_rng(1).normal(size=(6, INPUTS))
    rows = rng.normal(size=(count, *ROWS[text])) @ mixture
    if text is CONVOLUTIONS:
        rows = rows.swapaxes(2, 3)
    return [{"x": row.astype(np.float32)} for row in rows]


def _quantized(text, rounding, **options):
    data = _samples(text, 200, 2)
    return quarkfast.quantize(_model(text), preset="DYNAMIC", calibration_data=data, rounding=rounding, **options)


def _ratio(text, made):
    model, others = _model(text), _samples(text, 32, 7)
    pairs = ((run_exact(model, feed)[0], run_exact(made.model_bytes, feed)[0]) for feed in others)
    return np.mean([sqnr(expected, got) for expected, got in pairs])


@TEXTS
def test_outputs_on_other_samples_gain(text):
    nearest, rounded = (_quantized(text, rounding) for rounding in ("nearest", "descent"))
    assert _ratio(text, rounded) > _ratio(text, nearest) + 1
    assert any(f"weight rounding: codes of {len(LAYERS[text])} layers" in note for note in rounded.summary.notes)


@TEXTS
def test_layers_see_what_they_will_read(text, monkeypatch):
    seen = []

    def spied(models, *given, **named):
        seen.append(models)
        walk.go_through(models, *given, **named)

    monkeypatch.setattr("quarkfast.reconstruction.reconstruct.go_through", spied)
    _quantized(text, "descent")
    (models,) = seen
    rounded = [node.op_type for node in models.quantized.graph.node].count("DynamicQuantizeLinear")
    nodes = [node for node in models.quantized.graph.node if set(node.input) & set(LAYERS[text])]
    assert rounded == len(nodes)
    assert "DynamicQuantizeLinear" not in {node.op_type for node in models.float_model.graph.node}


def test_a_quality_target_tries_it():
    made = quarkfast.quantize(
        _model(PRODUCTS), preset="DYNAMIC", calibration_data=_samples(PRODUCTS, 200, 2), min_sqnr=36.0
    )
    asked, rounded = made.summary.levers
    assert (asked.lever, rounded.lever, rounded.kept) == ("as asked", "rounding=descent", True)
    assert asked.assured < 36 <= rounded.assured
