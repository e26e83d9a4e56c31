import numpy as np
import onnx
import pytest

from quarkfast.reconstruction.output_error import output_error
from support.tiny_models import tiny_model

TEXT = "g (float[N, 2] x) => (float[N, 2] y, int64[2] s) { y = Mul (x, f) s = Shape (x) }"
FEEDS = [{"x": np.float32([[3.0, 4.0]])}, {"x": np.float32([[0.0, 5.0]])}]


def _times(factor):
    return tiny_model(TEXT, {"f": np.float32(factor)})


def test_power_is_added_over_samples_of_float_outputs():
    # The signal has 9 + 16 + 25, the noise a hundredth of it.
    assert output_error(_times(1.0), _times(0.9), FEEDS) == {"y": pytest.approx(20.0, abs=1e-5)}


def test_equal_outputs_have_no_noise():
    assert output_error(_times(1.0), _times(1.0), FEEDS) == {"y": np.inf}


def test_numbers_that_are_not_finite_where_they_were_are_the_worst():
    assert output_error(_times(1.0), _times(np.inf), FEEDS[:1]) == {"y": -np.inf}


def test_outputs_without_signal_are_left_out():
    zeros = [{"x": np.zeros((1, 2), np.float32)}]
    assert output_error(_times(1.0), _times(1.0), zeros) == {}


def test_other_shapes_are_the_worst():
    other = onnx.ModelProto.FromString(_times(1.0).SerializeToString())
    other.graph.node[0].input[1] = "wide"
    other.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((3, 1), np.float32), "wide"))
    assert output_error(_times(1.0), other, FEEDS) == {"y": -np.inf}


def test_features_count_as_an_output():
    texts = (f"g (float[N, 2] x) => (float[N, 2] y) {{ h = {op} (x) y = Abs (h) }}" for op in ("Identity", "Neg"))
    found = output_error(*map(tiny_model, texts), FEEDS, "h")
    assert found == {"y": np.inf, "h": pytest.approx(-10 * np.log10(4))}
