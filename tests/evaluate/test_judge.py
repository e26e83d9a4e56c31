import numpy as np
import onnx
import pytest

from quarkfast.evaluate.judge import Counted, Judge, hold_out
from support.tiny_models import tiny_model

TEXT = "g (float[N, 2] x) => (float[N, 2] y, int64[2] s) { y = Mul (x, f) s = Shape (x) }"
FEEDS = [{"x": np.float32([[3.0, 4.0]])}, {"x": np.float32([[0.0, 5.0]])}]


def output_ratios(reference, quantized, feeds, features=""):
    with Judge(reference, feeds, Counted(features=features)) as judge:
        return judge.noise(quantized).ratios()


def _times(factor):
    return tiny_model(TEXT, {"f": np.asarray(factor, np.float32)})


def test_each_sample_has_a_ratio_of_its_float_outputs():
    # The noise is a hundredth of the signal of the first sample, and of the second's a quarter.
    other = _times(np.float32([0.9, 0.5]))
    first, second = output_ratios(_times(1.0), other, FEEDS)
    assert first == pytest.approx(10 * np.log10(25 / (0.3**2 + 2**2)), abs=1e-5)
    assert second == pytest.approx(10 * np.log10(4), abs=1e-5)


def test_equal_outputs_have_the_most_decibels():
    assert output_ratios(_times(1.0), _times(1.0), FEEDS).tolist() == [100.0, 100.0]


def test_numbers_that_are_not_finite_where_they_were_are_the_worst():
    assert output_ratios(_times(1.0), _times(np.inf), FEEDS[:1]).tolist() == [-100.0]


def test_samples_without_signal_have_no_ratio():
    zeros = [{"x": np.zeros((1, 2), np.float32)}]
    assert np.isnan(output_ratios(_times(1.0), _times(1.0), zeros)).all()


def test_what_one_model_gives_too_much_is_noise():
    other = onnx.ModelProto.FromString(_times(1.0).SerializeToString())
    other.graph.node[0].input[1] = "wide"
    other.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((3, 1), np.float32), "wide"))
    # Two more rows that are the same as the one that was wanted.
    assert output_ratios(_times(1.0), other, FEEDS) == pytest.approx([-10 * np.log10(2)] * 2)


def test_features_count_as_an_output():
    texts = (f"g (float[N, 2] x) => (float[N, 2] y) {{ h = {op} (x) y = Abs (h) }}" for op in ("Identity", "Neg"))
    found = output_ratios(*map(tiny_model, texts), FEEDS, "h")
    assert found == pytest.approx([(100 - 10 * np.log10(4)) / 2] * 2)


def test_boxes_and_scores_of_one_output_count_alike():
    text = """g (float[N, 2] x) => (float[N, 4] y) {
        box = Mul (x, f)
        score = Sigmoid (x)
        y = Concat <axis = 1> (box, score)
    }"""
    one, other = (tiny_model(text, {"f": np.float32(factor)}) for factor in (1.0, 0.9))
    # The scores are the same, which ends at 100 dB, and the noise of boxes is a hundredth of their power.
    assert output_ratios(one, other, FEEDS[:1]) == pytest.approx([(100 + 20) / 2], abs=1e-5)


def test_one_reference_serves_several_models():
    with Judge(_times(1.0), FEEDS) as judge:
        found = [judge.noise(_times(factor)).ratios().tolist() for factor in (1.0, np.inf, 1.0)]
    assert found == [[100.0] * 2, [-100.0] * 2, [100.0] * 2]


def test_a_holdout_is_a_quarter_of_the_samples_and_16_at_the_most():
    assert [tuple(map(len, hold_out(range(count)))) for count in (1, 2, 3, 4, 32, 100)] == [
        *((1, 1), (1, 1), (2, 1), (3, 1), (24, 8), (84, 16))
    ]
    assert hold_out(range(4)) == ([0, 1, 2], [3])
