from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare
from quarkfast.pipeline.resolve import resolve
from quarkfast.quantization import function_inputs, place
from support.tiny_models import tiny_model

RNG = np.random.default_rng(5)
CONSTANTS = {
    "w1": RNG.normal(0, 1, (8, 4, 1, 1)).astype(np.float32),
    "b1": np.full(8, -6, np.float32),
    "w2": RNG.normal(0, 1, (4, 8, 1, 1)).astype(np.float32),
    **{"c3": np.float32(3), "c0": np.float32(0), "c6": np.float32(6)},
}
BODIES = {
    "SiLU": "s = Sigmoid(a) z = Mul(a, s)",
    "HardSwish": "s = Add(a, c3) t = Clip(s, c0, c6) m = Mul(a, t) z = Div(m, c6)",
    "Mish": "s = Softplus(a) t = Tanh(s) z = Mul(a, t)",
}
IMAGES = {"x": RNG.normal(0, 3, (8, 4, 8, 8)).astype(np.float32)}


def _model(body):
    text = f"g (float[N, 4, 8, 8] x) => (float[N, 4, 8, 8] y) {{ a = Conv(x, w1, b1) {body} y = Conv(z, w2) }}"
    return tiny_model(text, CONSTANTS)


def _quantize(body, **options):
    return quarkfast.quantize(_model(body), preset="U8S8", calibration_data=IMAGES, **options)


def _ratio(body, result):
    expected, got = (exact_session(each).run(None, IMAGES)[0] for each in (_bytes(body), result.model_bytes))
    return sqnr(expected, got)


def _bytes(body):
    return _model(body).SerializeToString()


def _told(result):
    return [note for note in result.summary.notes if note.startswith("ranges end where")]


@pytest.mark.parametrize(("name", "body"), BODIES.items(), ids=BODIES)
def test_the_input_of_a_function_has_a_range_of_what_it_tells_apart(name, body):
    fitted, kept = _quantize(body), _quantize(body, strict=True)
    assert _told(fitted) == [
        f"ranges end where the function that reads them is flat, as its results lose least: 1 {name}"
    ]
    assert _told(kept) == []
    assert _ratio(body, fitted) > _ratio(body, kept) + 1
    assert "a" not in fitted.summary.saturated


def test_a_calibration_gives_the_same_with_histograms_and_the_methods_range_without():
    body = BODIES["SiLU"]
    model = _model(body)
    direct = _quantize(body)
    for histogram, expected in ((True, direct), (False, _quantize(body, strict=True))):
        found = quarkfast.calibrate(model, IMAGES, histogram=histogram)
        result = quarkfast.quantize(model, preset="U8S8", calibration=found)
        assert _told(result) == _told(expected)
    again = quarkfast.quantize(model, preset="U8S8", calibration=quarkfast.calibrate(model, IMAGES))
    assert _told(again) == _told(direct)


def test_sixteen_bits_keep_their_range():
    result = quarkfast.quantize(_model(BODIES["SiLU"]), preset="A16W8", calibration_data=IMAGES)
    assert _told(result) == []


def _fitted(text):
    scheme, target = resolve("U8S8", {})
    model = prepare(load_model(_model(text)), 13)
    return {name: each.name for name, each in function_inputs(model, place(model, scheme, target)).items()}


def test_a_tensor_that_is_moved_in_front_of_a_function_has_its_range():
    body = "a2 = Transpose<perm = [0, 1, 3, 2]>(a) s = Sigmoid(a2) z = Mul(a2, s)"
    assert _fitted(body) == {"a": "SiLU"}
    (note,) = _told(_quantize(body))
    assert note.endswith("1 SiLU")


def test_tensors_that_are_joined_in_front_of_a_function_have_its_range():
    body = "b = Conv(x, w1) j = Concat<axis = 1>(a, b) s = Sigmoid(j) z, o = Split<axis = 1>(s)"
    assert _fitted(body) == dict.fromkeys("abj", "Sigmoid")


@pytest.mark.parametrize("other", ["r = Relu(a)", "r = Relu(a2)"])
def test_a_tensor_whose_scale_others_have_keeps_its_range(other):
    body = f"a2 = Transpose<perm = [0, 1, 3, 2]>(a) {other} s = Sigmoid(a2) z = Mul(s, r)"
    assert _fitted(body) == {}


def test_a_range_of_the_users_stays():
    result = _quantize(BODIES["SiLU"], tensors={"a": {"range": [-30.0, 30.0]}})
    assert _told(result) == []


def test_a_long_chain_of_moves_is_followed_to_its_end():
    moves = "".join(f"t{i + 1} = Transpose<perm = [0, 1, 3, 2]>(t{i}) " for i in range(1500))
    body = f"t0 = Transpose<perm = [0, 1, 3, 2]>(a) {moves} z = Sigmoid(t1500)"
    assert _fitted(body) == {"a": "Sigmoid"}
