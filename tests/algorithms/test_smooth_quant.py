"""SmoothQuant: activations whose channels are more alike, and a float model that computes the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quarkfast
from quarkfast.algorithms.smooth_quant import SmoothQuantSettings, smooth_quant
from quarkfast.config import PRESETS, scheme_from
from quarkfast.config.quark import scheme_of
from quarkfast.config.quark.translate import with_algorithms
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from support.tiny_models import arrays_of, operators_of, tiny_model

WIDTH, HIDDEN = 32, 48
ALONE = "n = LayerNormalization (x, gain, offset)"
SHARED = f"{ALONE}\n r = Add (n, x)"


def _text(residual):
    """Attention's three products read one tensor; where there is a residual sum, it reads that tensor too."""
    return f"""g (float[N, 6, {WIDTH}] x) => (float[N, 6, {WIDTH}] y) {{
        {SHARED if residual else ALONE}
        q = MatMul (n, wq)
        k = MatMul (n, wk)
        v = MatMul (n, wv)
        kt = Transpose <perm = [0, 2, 1]> (k)
        scores = MatMul (q, kt)
        weights = Softmax <axis = -1> (scores)
        mixed = MatMul (weights, v)
        h = MatMul (mixed, wo)
        {"s = Add (h, r)" if residual else "s = Identity (h)"}
        y = Relu (s)
    }}"""


def _model(residual=False, seed=3, spread=20.0):
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)) for name in ("wq", "wk", "wv", "wo")}
    arrays |= {"gain": rng.uniform(0.5, 1.5, WIDTH), "offset": rng.normal(0, 0.1, WIDTH)}
    arrays["gain"][[2, 9]] *= spread
    return tiny_model(_text(residual), {name: each.astype(np.float32) for name, each in arrays.items()}, 17)


def _x(count, seed=1):
    return np.random.default_rng(seed).normal(size=(count, 6, WIDTH)).astype(np.float32)


def _run(model, x):
    return exact_session(model).run(None, {"x": x})[0]


def _smoothed(proto, maxima, alpha=0.5):
    model = load_model(proto)
    return model, smooth_quant(model, {"n": maxima}, settings=SmoothQuantSettings(alpha))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    alpha=st.floats(0, 1),
    residual=st.booleans(),
    maxima=st.lists(st.sampled_from([0.0, 1e-6, 0.1, 1.0, 30.0, 1e4]), min_size=WIDTH, max_size=WIDTH),
)
def test_the_float_model_computes_what_it_did(seed, alpha, residual, maxima):
    proto = _model(residual, seed, spread=1.0)
    model, changed = _smoothed(proto, np.float32(maxima), alpha)
    assert changed <= 1
    # Each constant, and each value behind the Mul, is rounded to float32 once more, by 2^-24 of itself or 144 dB.
    # Scores of the attention reach a few tens, and a Softmax passes their errors on as they are.
    assert sqnr(_run(proto, _x(8)), _run(serialize(model), _x(8))) > 110


def test_channels_have_the_factors_of_the_paper():
    proto = _model()
    maxima = np.abs(np.random.default_rng(2).normal(size=WIDTH)).astype(np.float32)
    maxima[5] = 40
    model, changed = _smoothed(proto, maxima, 0.75)
    before, after = arrays_of(load_model(proto)), arrays_of(model)
    rows = np.max([np.abs(before[name]).max(axis=1) for name in ("wq", "wk", "wv")], axis=0)
    factors = maxima**0.75 / rows**0.25
    factors /= np.exp(np.log(factors).mean())
    assert changed == 1
    # float32 holds a factor and its product with a constant to 2^-24 each.
    for name in ("wq", "wk", "wv"):
        np.testing.assert_allclose(after[name], before[name] * factors[:, None], rtol=1e-6)
    for name in ("gain", "offset"):
        np.testing.assert_allclose(after[name], before[name] / factors, rtol=1e-6)
    np.testing.assert_array_equal(after["wo"], before["wo"])
    assert "Mul" not in operators_of(model)
    assert smooth_quant(model, {"n": maxima}) == 0


def test_a_sum_beside_the_products_reads_what_it_did():
    model, changed = _smoothed(_model(residual=True), np.linspace(0.1, 9, WIDTH, dtype=np.float32))
    assert (changed, operators_of(model).count("Mul")) == (1, 1)


def test_factors_that_cost_weights_more_than_activations_gain_are_left_out():
    rows = {f"w{name}": np.eye(WIDTH, dtype=np.float32) for name in "qkvo"}
    vectors = {"gain": np.ones(WIDTH, np.float32), "offset": np.zeros(WIDTH, np.float32)}
    model = tiny_model(_text(False), rows | vectors, 17)
    maxima = np.ones(WIDTH, np.float32)
    maxima[0] = 1.5
    assert _smoothed(model, maxima, 0.0)[1] == 0
    rough = {**rows, "wq": np.diag(np.r_[9, np.ones(WIDTH - 1)]).astype(np.float32)}
    assert _smoothed(tiny_model(_text(False), rough | vectors, 17), maxima, 1.0)[1] == 0


def test_channels_that_samples_do_not_know_stay():
    maxima = np.ones(WIDTH, np.float32)
    maxima[:4], maxima[4] = 0, 30
    proto = _model()
    model, _ = _smoothed(proto, maxima)
    before, after = arrays_of(load_model(proto)), arrays_of(model)
    np.testing.assert_array_equal(before["wq"][:4], after["wq"][:4])
    assert not np.array_equal(before["wq"][4:], after["wq"][4:])
    assert _smoothed(proto, np.zeros(WIDTH, np.float32))[1] == 0


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8"])
def test_static_presets_smooth_by_their_samples(preset):
    proto, options = _model(), {"equalize": False, "strict": True, "bias_correction": False}
    plain, smooth = (
        quarkfast.quantize(proto, None, preset, _x(64), **options, **further) for further in ({}, {"smooth_alpha": 0.7})
    )
    onnx.checker.check_model(smooth.proto)
    note = "SmoothQuant: 1 of 1 tensors in front of matrix products have channels divided with the exponent 0.7, by 16"
    assert any(each.startswith(note) for each in smooth.summary.notes)
    expected = _run(proto, _x(64, 5))
    gains = sqnr(expected, _run(smooth.model_bytes, _x(64, 5))) - sqnr(expected, _run(plain.model_bytes, _x(64, 5)))
    # Two channels reach twenty times as far as the others, which 8 bits do not carry.
    assert gains > (3 if preset in ("A8W8", "U8S8") else -1)


def test_what_samples_do_not_show_decides_nothing():
    saved = quarkfast.calibrate(_model(), _x(16), preset="A8W8")
    for source in ({"calibration_data": "random"}, {"calibration": saved}):
        result = quarkfast.quantize(_model(), preset="A8W8", smooth_alpha=0.5, **source)
        assert "SmoothQuant was left out: it takes real samples that fit into memory" in result.summary.notes


def test_a_tensor_that_a_quantized_node_computes_is_left_with_a_note():
    text = "g (float[N, 8] x) => (float[N, 8] y) { r = Relu (x)\n y = MatMul (r, w) }"
    model = tiny_model(text, {"w": np.eye(8, dtype=np.float32)})
    result = quarkfast.quantize(model, None, "A8W8", np.ones((4, 8), np.float32), smooth_alpha=0.5)
    assert "SmoothQuant was left out: no float node computes what a matrix product reads" in result.summary.notes


@pytest.mark.parametrize(
    ("preset", "alpha", "message"),
    [
        ("A8W8", 1.5, "smooth_alpha: expected a number from 0 to 1, got 1.5"),
        ("BF16", 0.5, "smooth_alpha: expected a preset whose activations are integers with scales .* got BF16; leave"),
        ("DYNAMIC", 0.5, "smooth_alpha: expected a preset whose activations are integers .* got DYNAMIC; leave it out"),
        ("INT8_WO", 0.5, "smooth_alpha: expected a preset whose activations are integers .* got INT8_WO; leave it out"),
    ],
)
def test_an_exponent_that_means_nothing_meets_a_sentence(preset, alpha, message):
    with pytest.raises(quarkfast.ConfigError, match=message):
        scheme_from(preset, {"smooth_alpha": alpha})


def test_a_scheme_keeps_it_as_plain_data():
    scheme = scheme_from("A8W8", {"smooth_alpha": 0.25})
    assert type(scheme).from_dict(scheme.to_dict()) == scheme
    assert "smooth_alpha" not in PRESETS["A8W8"].to_dict()


def test_quarks_configurations_ask_for_it():
    layer = quarkfast.QLayerConfig(activation=quarkfast.Int8Spec(), weight=quarkfast.Int8Spec())
    config = quarkfast.QConfig(layer, algo_config=[quarkfast.SmoothQuantConfig(alpha=0.8)])
    assert scheme_of(config).smooth_alpha == 0.8
    assert with_algorithms(PRESETS["A8W8"], [quarkfast.SmoothQuantConfig()]).smooth_alpha == 0.5
    older = quarkfast.get_default_config("A8W8")
    older.include_sq = True
    assert scheme_of(older).smooth_alpha == 0.5
    older.extra_options = {**older.extra_options, "SmoothAlpha": 0.75}
    assert scheme_of(older).smooth_alpha == 0.75


def test_an_exponent_without_smoothquant_is_refused():
    config = quarkfast.get_default_config("A8W8")
    config.extra_options = {**config.extra_options, "SmoothAlpha": 0.75}
    with pytest.raises(quarkfast.ConfigError, match="option SmoothAlpha: expected SmoothQuant beside it, got none"):
        scheme_of(config)
