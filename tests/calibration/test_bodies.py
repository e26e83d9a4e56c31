"""Bodies of If, Loop and Scan, as in silero's voice detector: seen where they ran, named where they did not."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.kernels import histogram, reduce_range
from support.graph_text import parse_model
from support.tiny_models import tiny_model

W = np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32)

# As silero's: a branch for each sampling rate, the states of a recurrent network in a Loop, an If inside a branch.
TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
silero (float[N, 4] x, int64 rate) => (float[N, 4] y)
<int64 high = {16000}, int64 steps = {3}, bool always = {1}>
{
    fast = Equal (rate, high)
    [choose] heard = If (fast) <
        then_branch = wide () => (float[N, 4] loud) {
            [wide_layer] t = MatMul (x, w)
            [wide_loop] loud = Loop (steps, always, t) <
                body = step (int64 i, bool go, float[N, 4] state) => (bool again, float[N, 4] next) {
                    again = Identity (go)
                    [step_layer] t2 = MatMul (state, w)
                    next = Tanh (t2)
                }
            >
        },
        else_branch = narrow () => (float[N, 4] loud) {
            [narrow_layer] t = MatMul (x, w)
            loud = Tanh (t)
        }
    >
    [last] y = MatMul (heard, w)
}
"""


def _model():
    model = parse_model(TEXT)
    model.graph.initializer.append(onnx.numpy_helper.from_array(W, "w"))
    return model


def _feeds(rates):
    rng = np.random.default_rng(3)
    return [{"x": rng.normal(size=(5, 4)).astype(np.float32), "rate": np.array(rate)} for rate in rates]


def _calibrate(model, feeds, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = quarkfast.calibrate(model, feeds, threads=1, **options)
    return found, [str(each.message) for each in caught]


def _run(model, feed):
    return ort.run(ort.inference_session(model.SerializeToString(), ort.session_options(threads=1)), feed)[0]


def _states(feed):
    """What the Loop reads, step by step, as plain onnxruntime computes it."""
    matmul = tiny_model("g (float[N, 4] a) => (float[N, 4] b) { b = MatMul (a, w) }", {"w": W})
    tanh = tiny_model("g (float[N, 4] a) => (float[N, 4] b) { b = Tanh (a) }")
    state = _run(matmul, {"a": feed["x"]})
    states = [state]
    for _ in range(2):
        state = _run(tanh, {"a": _run(matmul, {"a": state})})
        states.append(state)
    return np.stack(states)


def test_a_branch_and_a_loop_that_ran_are_seen():
    feeds = _feeds([16000, 16000])
    found, _ = _calibrate(_model(), feeds)
    states = np.stack([_states(feed) for feed in feeds])
    seen = found.tensors["choose:then_branch:wide_loop:body:state"]
    assert seen.range == reduce_range(states)
    np.testing.assert_array_equal(seen.histogram.counts, histogram(states).counts)
    assert found.tensors["choose:then_branch:t"].range.count == 2 * 20
    assert found.tensors["x"].range == reduce_range(np.stack([feed["x"] for feed in feeds]))


def test_a_branch_that_no_sample_ran_is_named():
    found, messages = _calibrate(_model(), _feeds([16000]))
    (message,) = messages
    assert message.startswith(
        "calibrate: expected every body to run, got no sample that runs else_branch of 'choose'; its"
    )
    assert found.tensors["choose:else_branch:t"].range.count == 0
    found, messages = _calibrate(_model(), _feeds([8000]))
    assert [message.partition(" runs ")[2].partition(";")[0] for message in messages] == [
        "then_branch of 'choose'",
        "body of 'choose:then_branch:wide_loop'",
    ]
    assert found.tensors["choose:else_branch:t"].range.count == 20


def test_where_every_branch_ran_there_is_nothing_to_say():
    assert _calibrate(_model(), _feeds([8000, 16000]))[1] == []


def test_tensors_of_one_name_in_two_branches_are_kept_apart():
    found, _ = _calibrate(_model(), _feeds([8000, 16000, 16000]))
    assert found.tensors["choose:then_branch:t"].range.count == 2 * 20
    assert found.tensors["choose:else_branch:t"].range.count == 20


def test_observing_changes_no_output():
    feeds = _feeds([8000, 16000])
    expected = [_run(_model(), feed) for feed in feeds]
    calibration, _ = _calibrate(_model(), feeds)
    assert calibration.tensors["y"].range == reduce_range(np.stack(expected))


def test_a_calibration_with_bodies_is_saved_merged_and_used(tmp_path):
    whole, _ = _calibrate(_model(), _feeds([8000, 16000]))
    parts = [_calibrate(_model(), [feed])[0] for feed in _feeds([8000, 16000])]
    assert quarkfast.merge_calibrations(parts) == whole
    whole.save(tmp_path / "c.json")
    assert quarkfast.Calibration.load(tmp_path / "c.json") == whole
    quantized = quarkfast.quantize(_model(), calibration=tmp_path / "c.json")
    assert quantized.summary.quantized == {"MatMul": 1}


def test_a_scan_is_seen_at_every_step():
    model = parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        sums (float[4] start, float[T, 4] xs) => (float[4] end, float[T, 4] ys) {
            [walk] end, ys = Scan <num_scan_inputs = 1,
                body = step (float[4] before, float[4] x) => (float[4] after, float[4] y) {
                    after = Add (before, x)
                    y = Neg (after)
                }> (start, xs)
        }""")
    xs = np.random.default_rng(2).normal(size=(6, 4)).astype(np.float32)
    found, _ = _calibrate(model, [{"start": np.zeros(4, np.float32), "xs": xs}])
    assert found.tensors["walk:body:x"].range == reduce_range(xs)
    assert found.tensors["walk:body:after"].range.count == 24


@pytest.mark.parametrize(("kind", "dtype"), [("FLOAT16", np.float16), ("BFLOAT16", ml_dtypes.bfloat16)])
def test_a_model_in_half_precision_is_observed_as_it_is(kind, dtype):
    text = f"""g (float[N, 4] a) => (float[N, 4] b) {{
        x = Cast <to = {getattr(onnx.TensorProto, kind)}> (a)
        r = Reshape (x, shape)
        b = Cast <to = {onnx.TensorProto.FLOAT}> (r)
    }}"""
    model = tiny_model(text, {"shape": np.array([-1, 4])}, opset=19)
    values = np.random.default_rng(5).normal(size=(9, 4)).astype(np.float32)
    found, _ = _calibrate(model, values, strict=True)  # moves between floats, too
    half = values.astype(dtype)
    assert found.tensors["x"].range == reduce_range(half)
    np.testing.assert_array_equal(found.tensors["x"].histogram.counts, histogram(half).counts)


def test_a_float16_model_is_observed_from_input_to_output_as_it_is_quantized():
    model = tiny_model(
        "g (float16[N, 4] x) => (float16[N, 4] y) { t = MatMul (x, w)\n y = Relu (t) }", {"w": W.astype(np.float16)}
    )
    x = np.random.default_rng(5).normal(size=(9, 4)).astype(np.float16)
    found, _ = _calibrate(model, x)
    wide = tiny_model("g (float[N, 4] x) => (float[N, 4] y) { t = MatMul (x, w)\n y = Relu (t) }", {"w": W})
    wide.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(W.astype(np.float16).astype(np.float32), "w"))
    assert set(found.tensors) == {"x_float32", "y_float32"}
    assert found.tensors["x_float32"].range == reduce_range(x.astype(np.float32))
    assert found.tensors["y_float32"].range == reduce_range(_run(wide, {"x": x.astype(np.float32)}))
