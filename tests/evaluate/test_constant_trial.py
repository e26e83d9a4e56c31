"""Outputs of a model while some of its constants are others."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from quarkfast import ort
from quarkfast.errors import ModelError
from quarkfast.evaluate.constant_trial import ConstantTrial

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N] x) => (float[N] y, float[N] z, int64[1] shape) { y = Mul(x, a)  z = Mul(x, b)  shape = Shape(x) }"""


def trial(text: str = TEXT, **feed: np.ndarray) -> ConstantTrial:
    proto = onnx.parser.parse_model(text)
    constants = {"a": np.float32([2.0]), "b": np.float32([4.0])}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(each, name) for name, each in constants.items())
    return ConstantTrial(proto, None, constants, [feed])


def test_noise_is_that_of_the_worst_output():
    found = trial(x=np.float32([1, -2, 3]))
    assert found.is_steady
    assert found.noise({}) == 0
    assert found.noise({"a": np.float32([1.0])}) == 0.25
    assert found.noise({"a": np.float32([1.0]), "b": np.float32([5.0])}) == 0.25
    assert found.noise({"b": np.float32([np.inf])}) == float("inf")
    found.close()


def test_an_output_of_one_number_without_dimensions_has_noise():
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N] x) => (float y) { z = Mul(x, a)  y = ReduceSum <keepdims = 0> (z) }"""
    found = trial(text, x=np.float32([1, -2, 3]))
    assert found.noise({"a": np.float32([1.0])}) == 0.25
    assert found.compare({"a": np.float32([1.0])}, {"a": np.float32([2.0])}) == (0.25, 0.0)


def _added(*values: float) -> ConstantTrial:
    """Returns a trial of a sum, on samples of one number each."""
    proto = onnx.parser.parse_model(TEXT.replace("Mul(x, a)", "Add(x, a)"))
    constants = {"a": np.float32([0.0]), "b": np.float32([1.0])}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(each, name) for name, each in constants.items())
    return ConstantTrial(proto, None, constants, [{"x": np.float32([value])} for value in values])


def test_noise_of_samples_is_beside_the_power_of_all():
    found = _added(1.0)
    assert found.numbers == 2
    assert found.noise({"a": np.float32([1.0])}) == 1
    found.add_samples([{"x": np.float32([3.0])}])
    assert found.noise({"a": np.float32([1.0])}) == pytest.approx(2 / 10)
    assert found.noise({"a": np.float32([1.0])}, of_worst=True) == 1


def test_outputs_that_are_zero_on_a_sample_count_on_others():
    found = _added(0.0, 2.0)
    assert not found.is_steady
    found = _added(2.0, 0.0)
    assert found.noise({"a": np.float32([1.0])}) == 1 / 4


def test_compared_noise_of_several_samples_is_their_geometric_mean():
    found = _added(1.0, 4.0)
    kinds = {"a": np.float32([1.0])}, {"a": np.float32([2.0])}
    assert found.compare(*kinds) == pytest.approx((1 / 4, 1))  # of 1 and 1 / 16, of 4 and 1 / 4


def test_no_more_samples_run_than_tell_which_is_better(monkeypatch):
    """The second kind leaves more noise on each of the first three samples, by factors that are nearly the same."""
    found, runs, run = _added(1.0, 2.0, 3.0, 4.0, 5.0), [], ort.run
    monkeypatch.setattr("quarkfast.ort.run", lambda *given: runs.append(1) or run(*given))
    first, second = found.compare({"a": np.float32([1.0])}, {"a": np.float32([2.0])})
    assert second == pytest.approx(4 * first)
    assert len(runs) == 3 * 3 - 1, "the outputs on the first sample are known"


def test_two_kinds_are_compared_by_all_outputs_that_have_noise():
    found = trial(x=np.float32([1, -2, 3]))
    one, both = {"a": np.float32([1.0])}, {"a": np.float32([1.0]), "b": np.float32([5.0])}
    assert found.compare(one, both) == pytest.approx((1 / 4, 1 / 8))  # 1/4, and 1/4 and 1/16
    assert found.compare({}, one) == pytest.approx((0, 1 / 4))
    found.close()


def test_outputs_of_zeros_do_not_count():
    assert not trial(x=np.zeros(3, np.float32)).is_steady


def test_a_model_that_draws_is_not_steady():
    drawn = TEXT.replace("Mul(x, b)", "RandomNormalLike(x)").replace("y = Mul(x, a)", "w = Mul(a, b)  y = Mul(x, w)")
    assert not trial(drawn, x=np.float32([1, 2, 3])).is_steady


BRANCHES = (
    "If (yes) <then_branch = t () => (float[N] s) {s = Abs (x)}, else_branch = e () => (float[N] s) {s = Mul (x, b)}>"
)


@pytest.mark.parametrize(
    ("node", "expected"), [("Mul (x, b)", 1), ("Dropout (x)", 2), ("com.microsoft.FastGelu (x)", 2), (BRANCHES, 2)]
)
def test_only_a_model_that_may_draw_runs_twice_to_be_opened(monkeypatch, node, expected):
    text = f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[N] x) => (float[N] y, float[N] z, bool[1] yes) {{ yes = Equal (a, b)  y = Mul (x, a)  z = {node} }}"""
    runs, run = [], ort.run
    monkeypatch.setattr("quarkfast.ort.run", lambda *given: runs.append(1) or run(*given))
    assert trial(text, x=np.float32([1, 2, 3])).is_steady
    assert len(runs) == expected


def test_a_feed_that_does_not_fit_is_an_error():
    with pytest.raises(ModelError, match="onnxruntime"):
        trial(x=np.float64([1.0]))


HEAD = """<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[6] y) {
    box = Mul(x, a)
    low = Mul(x, b)
    one = Sigmoid(low)
    two = Sigmoid(x)
    y = Concat<axis = 0>(one, box, two)
}"""


def test_boxes_do_not_hide_what_scores_lose():
    found = trial(HEAD, x=np.float32([1, -2]))
    before, after, other = (1 / (1 + np.exp(-factor * np.array([1, -2.0]))) for factor in (4, 2, 1))
    expected = np.square(before - after).sum() / (np.square(before).sum() + np.square(other).sum())
    assert found.noise({"b": np.float32([2.0])}) == pytest.approx(expected, rel=1e-5)
    assert found.noise({"a": np.float32([1.0])}) == 0.25
