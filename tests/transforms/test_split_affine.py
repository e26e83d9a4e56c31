"""Steps behind a Concat: of small whole numbers and powers of two every sum is exact, so that results are equal."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.pipeline.prepare import prepare
from quarkfast.transforms.split_affine import split_affine
from support.tiny_models import operators_of, tiny_model

INPUTS = "float[N, 3, 4, 4] x, float[N, 2, 4, 4] z"
JOINED = "p = Relu (x)\n q = Neg (z)\n j = Concat <axis = 1> (p, q)\n "
CONSTANTS = {
    "far": np.float32([0.25, -0.5, 0.25, 8, -16]).reshape(5, 1, 1),
    "near": np.float32([1, -2, 4, 1, -4]).reshape(5, 1, 1),
    "plus": np.float32([1, 2, -3, 4, -5]).reshape(1, 5, 1, 1),
    "half": np.float32(0.5),
    "two": np.float32(2),
    "rows": np.float32([1, 64, 1, 1]).reshape(4, 1),
    "gamma": np.float32([1, -2, 1, 32, 16]),
    "even": np.float32([1, -2, 1, 2, 1]),
    "beta": np.float32([3, 1, -2, 0, 5]),
    "mean": np.float32([1, 0, 2, -1, 4]),
    "var": np.float32([4, 16, 1, 4, 1]),
    "w": np.float32(np.arange(9).reshape(3, 3, 1, 1) % 5 - 2),
    "v": np.float32(np.arange(4).reshape(2, 2, 1, 1) - 2),
}
NORM = "BatchNormalization <epsilon = 0.0> (j, gamma, beta, mean, var)"


def _build(body, inputs=INPUTS, outputs="y", **changed):
    arrays = CONSTANTS | changed
    used = body.replace(",", " ").replace("(", " ").replace(")", " ").split()
    outputs = ", ".join(outputs.split())
    return tiny_model(f"g ({inputs}) => ({outputs}) {{ {body} }}", {k: v for k, v in arrays.items() if k in used})


def _feed(seed):
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-4, 5, (2, n, 4, 4)).astype(np.float32) for name, n in (("x", 3), ("z", 2))}


def _split(proto):
    model = load_model(proto)
    return model, split_affine(model)


MOVED = {
    "Mul": (JOINED + "y = Mul (j, far)", ["Relu", "Neg", "Mul", "Mul", "Concat"]),
    "Div, constant last": (JOINED + "y = Div (j, far)", ["Relu", "Neg", "Mul", "Mul", "Concat"]),
    "Mul and Add": (JOINED + "a = Mul (far, j)\n y = Add (a, plus)", ["Relu", "Neg", "Mul", "Mul", "Concat", "Add"]),
    "Sub and Mul": (JOINED + "a = Sub (plus, j)\n y = Mul (a, far)", ["Relu", "Neg", "Mul", "Mul", "Concat", "Add"]),
    "all together": (
        JOINED + "a = Mul (j, far)\n b = Add (a, plus)\n c = Div (b, half)\n d = Neg (c)\n y = Relu (d)",
        ["Relu", "Neg", "Mul", "Mul", "Concat", "Add", "Relu"],
    ),
    "a factor of 1": (
        JOINED + "y = Mul (j, some)",
        ["Relu", "Neg", "Mul", "Concat"],
    ),
    "one input twice": (
        "p = Relu (x)\n j = Concat <axis = 1> (p, z, p)\n a = Mul (j, thrice)\n y = Relu (a)",
        ["Relu", "Mul", "Mul", "Mul", "Concat", "Relu"],
    ),
    "BatchNormalization": (JOINED + f"y = {NORM}", ["Relu", "Neg", "Mul", "Mul", "Concat", "Add"]),
    "BatchNormalization of layers": (
        f"p = Conv (x, w)\n q = Conv (z, v)\n j = Concat <axis = 1> (p, q)\n n = {NORM}\n y = Relu (n)".replace(
            "gamma", "even"
        ),
        ["Conv", "Conv", "Mul", "Concat", "Add", "Relu"],
    ),
}
EXTRA = {
    "some": np.float32([1, 1, 1, 16, 16]).reshape(5, 1, 1),
    "thrice": np.float32([4, 4, 4, 32, 32, 2, 2, 2]).reshape(8, 1, 1),
}


@pytest.mark.parametrize(("body", "operators"), MOVED.values(), ids=MOVED)
def test_factors_move_in_front_of_a_concat(body, operators):
    proto = _build(body, **EXTRA)
    model, changed = _split(proto)
    assert changed
    assert operators_of(model) == operators
    data, feed = serialize(model), _feed(5)
    for expected, got in zip(*(exact_session(each).run(None, feed) for each in (proto, data)), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert not split_affine(model)
    assert serialize(model) == data
    assert [value.name for value in model.graph.outputs] == ["y"]


STAYS = {
    "factors that are near": JOINED + "y = Mul (j, near)",
    "an offset alone": JOINED + "y = Add (j, plus)",
    "one number": JOINED + "y = Mul (j, two)",
    "channels along another axis": JOINED + "y = Mul (j, rows)",
    "a BatchNormalization of near factors": JOINED + "y = " + NORM.replace("gamma", "even"),
    "one that computes its own mean": JOINED
    + "y, m, s = BatchNormalization <training_mode = 1> (j, gamma, beta, mean, var)",
    "another node that reads the Concat": JOINED + "a = Mul (j, far)\n b = Relu (j)\n y = Add (a, b)",
    "a layer that another node reads": (
        "p = Conv (x, w)\n q = Conv (z, v)\n r = Relu (q)\n j = Concat <axis = 1> (p, q)\n "
        f"a = {NORM}\n k = Concat <axis = 1> (a, r)\n y = Relu (k)"
    ).replace("gamma", "even"),
    "a constant among the inputs": "p = Relu (x)\n j = Concat <axis = 1> (p, some)\n y = Mul (j, far)",
    "another operator": JOINED + "y = Relu (j)",
}


@pytest.mark.parametrize("body", STAYS.values(), ids=STAYS)
def test_other_concats_stay(body):
    proto = _build(body, some=np.ones((1, 2, 4, 4), np.float32), inputs=INPUTS.replace("N", "1"))
    model, changed = _split(proto)
    assert not changed
    assert operators_of(model) == [node.op_type for node in proto.graph.node]


def test_an_output_between_steps_stays():
    proto = _build(JOINED + "y = Add (j, plus)\n u = Mul (y, far)", outputs="y u")
    assert not _split(proto)[1]


def test_layers_in_front_take_a_normalization():
    proto = _build(f"p = Conv (x, w)\n q = Conv (z, v)\n j = Concat <axis = 1> (p, q)\n n = {NORM}\n y = Relu (n)")
    model = prepare(load_model(proto), 17)
    assert operators_of(model) == ["Conv", "Conv", "Concat", "Relu"]
    feed = _feed(7)
    ours, theirs = (exact_session(each).run(None, feed)[0] for each in (serialize(model), proto))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8"])
def test_a_small_input_keeps_its_bits(preset, tmp_path):
    """Inputs of a Concat lie 200 times apart and count alike: with one scale the result had 0 to 8 dB."""
    rng = np.random.default_rng(2)
    weight = rng.normal(size=(5, 4)).astype(np.float32)
    factor = np.float32([0.005, 0.006, 0.005, 1, 1.1])
    body = "j = Concat <axis = 1> (x, z)\n a = Mul (j, f)\n b = Relu (a)\n y = MatMul (b, w)"
    proto = _build(body, inputs="float[N, 3] x, float[N, 2] z", f=factor, w=weight)
    samples = [
        {"x": 200 * rng.normal(size=(1, 3)).astype(np.float32), "z": rng.normal(size=(1, 2)).astype(np.float32)}
        for _ in range(64)
    ]
    found = quarkfast.quantize(proto, tmp_path / "q.onnx", preset=preset, calibration_data=samples[:32])
    ours, theirs = exact_session(tmp_path / "q.onnx"), exact_session(proto)
    pairs = [(ours.run(None, feed)[0], theirs.run(None, feed)[0]) for feed in samples[32:]]
    noise = sum(float(np.square(a - b).sum()) for a, b in pairs)
    power = sum(float(np.square(b).sum()) for _, b in pairs)
    assert 10 * np.log10(power / noise) > 20, found.summary
