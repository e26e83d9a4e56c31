"""What outputs are made of by Softmax and Sigmoid, and how far a quantized model is from it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from quarkfast.evaluate.logits import Logits, judge_also, logits_of
from quarkfast.evaluate.pair_trial import PairTrial
from support.judged import judged

FLOAT = """<ir_version: 10, opset_import: ["": 17]>
g (float[N, 2] x) => (float[N, 2] y, float[N, 2] plain) { plain = Neg (x) z = Identity (plain) y = Softmax (x2)
    x2 = Mul (x, x)
}"""

# Steps of 0.5 for x, 1 for the logits.
ROUNDED = """<ir_version: 10, opset_import: ["": 17]>
g (float[N, 2] x) => (float[N, 2] y, float[N, 2] plain) <float half = {0.5}, float one = {1.0}, int8 zero = {0}> {
    plain = Neg (x)
    m = Mul (x, x)
    c = QuantizeLinear (m, one, zero)
    r = DequantizeLinear (c, one, zero)
    p = Softmax (r)
    k = QuantizeLinear (p, half, zero)
    y = DequantizeLinear (k, half, zero)
}"""

X = np.float32([[4.0, 1.4], [5.0, 2.1]])


def model(text: str) -> onnx.ModelProto:
    found = onnx.parser.parse_model(text)
    nodes = sorted(found.graph.node, key=lambda node: node.output[0] == "y")
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del found.graph.node[:]
    found.graph.node.extend(copies)
    return found


def decibels(signal: np.ndarray, noise: np.ndarray) -> float:
    return float(10 * np.log10(np.square(signal).sum() / np.square(noise).sum()))


def test_logits_lie_behind_pairs_too():
    assert logits_of(model(FLOAT)) == {"y": Logits("x2", np.inf)}
    assert logits_of(model(ROUNDED)) == {"y": Logits("r", np.inf)}


def test_a_model_input_is_no_logits():
    text = "g (float[2] x) => (float[2] y) { y = Sigmoid (x) }"
    assert logits_of(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 17]> {text}')) == {}


def test_outputs_and_logits_are_judged_apart():
    ratios = judged(model(FLOAT), [{"x": X[:1]}, {"x": X[1:]}], model(ROUNDED))
    squares = np.float64(X * X)
    assert ratios.logits == pytest.approx(decibels(squares, squares - np.rint(squares)), abs=1e-4)
    # The Softmax is sure of both samples: what the logits lost is not to be seen.
    assert ratios.outputs > 100


def test_what_is_in_doubt_are_two_standard_errors():
    text = '<ir_version: 10, opset_import: ["": 17]> g (float[N] x) => (float[N] y) { y = %s }'
    wanted, found = (onnx.parser.parse_model(text % node).SerializeToString() for node in ("Abs (x)", "Round (x)"))
    feeds = [{"x": np.float32([each])} for each in (1.25, 7.5, 3.75, 9.125)]
    power = np.square([1.25, 7.5, 3.75, 9.125])
    noise = np.square([0.25, 0.5, 0.25, 0.125])
    ratio = noise.sum() / power.sum()
    spread = np.sqrt(4 / 3 * np.square(noise - ratio * power).sum()) / power.sum()
    ratios = judged(wanted, feeds, found)
    assert ratios.outputs == pytest.approx(-10 * np.log10(ratio))
    assert ratios.doubt == pytest.approx(2 * 10 / np.log(10) * spread / ratio)
    # Without noise, and of one sample, nothing is in doubt.
    assert judged(wanted, feeds, wanted) == (np.inf, None, 0.0)
    assert judged(wanted, feeds[:1], found).doubt == 0


def test_the_output_that_is_least_with_its_doubt_taken_off_decides():
    """Of two outputs the one with the greater ratio has all its noise on one sample."""
    text = """<ir_version: 10, opset_import: ["": 17]> g (float[1] x, float[1] v) => (float[1] y, float[1] z)
        { y = %s (x) z = %s (v) }"""
    wanted, found = (onnx.parser.parse_model(text % (name, name)) for name in ("Abs", "Round"))
    feeds = [{"x": np.float32([1.25]), "v": np.float32([each])} for each in (1, 1, 1, 1.25)]
    both = judged(wanted.SerializeToString(), feeds, found.SerializeToString())
    found.graph.node[0].op_type = "Abs"
    second = judged(wanted.SerializeToString(), feeds, found.SerializeToString())
    assert both.outputs == pytest.approx(20 * np.log10(5))
    assert second.outputs > both.outputs
    assert both.outputs - both.doubt == pytest.approx(second.outputs - second.doubt)


def test_outputs_that_no_function_flattens_have_no_logits():
    text = '<ir_version: 10, opset_import: ["": 17]> g (float[N, 2] x) => (float[N, 2] y) { y = Neg (x) }'
    data = onnx.parser.parse_model(text).SerializeToString()
    assert judged(data, [{"x": X}], data) == (np.inf, None, 0.0)


def test_logits_that_only_one_model_has_do_not_count():
    text = FLOAT.replace("Softmax (x2)", "HardSigmoid (x2)")
    ratios = judged(model(FLOAT).SerializeToString(), [{"x": X}], model(text).SerializeToString())
    assert ratios.logits is None
    assert np.isfinite(ratios.outputs)


def test_what_is_no_number_has_the_least_ratio():
    text = '<ir_version: 10, opset_import: ["": 17]> g (float[N, 2] x) => (float[N, 2] y) { n = Neg (x) y = Sqrt (n) }'
    wanted = onnx.parser.parse_model(text.replace("Sqrt", "Abs")).SerializeToString()
    ratios = judged(wanted, [{"x": X}], onnx.parser.parse_model(text).SerializeToString())
    assert ratios.outputs == -np.inf


def test_a_trial_counts_the_noise_of_logits():
    trial = PairTrial(model(ROUNDED).SerializeToString(), model(FLOAT).SerializeToString(), [{"x": X}])
    squares = np.float64(X * X)
    noise = np.square(squares - np.rint(squares)).sum() / np.square(squares).sum()
    assert trial.noise(["m"]) == pytest.approx(noise, rel=1e-4)
    assert trial.noise([]) == 0
    trial.close()


# Scores whose logits have a step of 0.5 and end at 6.5, where a Sigmoid is flat.
SCORES = """<ir_version: 10, opset_import: ["": 17]>
g (float[N, 2] x) => (float[N, 2] y) <float half = {0.5}, float end = {6.5}, float start = {-6.5}, int8 zero = {0}> {
    m = Neg (x)
    c = QuantizeLinear (m, half, zero)
    d = DequantizeLinear (c, half, zero)
    r = Clip (d, start, end)
    y = Sigmoid (r)
}"""
FLOAT_SCORES = """<ir_version: 10, opset_import: ["": 17]>
g (float[N, 2] x) => (float[N, 2] y) { m = Neg (x) y = Sigmoid (m) }"""


def test_logits_do_not_count_where_a_sigmoid_is_flat():
    values = np.float32([[30.0, -9.3], [5.26, -12.0]])
    wanted, found = (onnx.parser.parse_model(text).SerializeToString() for text in (FLOAT_SCORES, SCORES))
    flat = np.log(511)
    signal = np.clip(values.astype(np.float64), -flat, flat)
    noise = signal - np.clip(np.rint(np.float64(2 * values)) / 2, -flat, flat)
    ratios = judged(wanted, [{"x": values}], found)
    assert ratios.logits == pytest.approx(decibels(signal, noise), abs=1e-4)
    trial = PairTrial(found, wanted, [{"x": values}])
    assert trial.noise(["m"]) == pytest.approx(10 ** (-min(ratios.outputs, ratios.logits) / 10), rel=1e-4)
    trial.close()


def test_no_tensor_is_judged_where_a_node_leaves_an_output_out():
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 17]>
        g (float[1, 1, 4] x, float[1, 8, 4] w, float[1, 8, 2] r) => (float[1, 1, 1, 2] y) {
            y = LSTM <hidden_size = 2> (x, w, r)
        }"""
    )
    model.graph.node[0].output.extend(["", "c"])
    assert [output.name for output in judge_also(model, "").graph.output] == ["y"]
