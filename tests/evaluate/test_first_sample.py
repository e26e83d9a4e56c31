"""What the outputs are worth on one sample, measured and told."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.errors import ModelError
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.first_sample import output_sqnr
from support.tiny_models import conv_relu_model, samples, tiny_model


def _run(data, feed):
    return ort.run(ort.inference_session(data, ort.session_options(optimize=False)), feed)[0]


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "DYNAMIC", "BF16", "MX6"])
def test_the_summary_holds_what_the_first_row_measures(preset):
    proto, feed = conv_relu_model(), {"x": samples()[:1]}
    result = quarkfast.quantize(proto, preset=preset, calibration_data=samples())
    measured = sqnr(_run(proto.SerializeToString(), feed), _run(result.model_bytes, feed))
    ((name, value),) = result.summary.outputs
    assert (name, value) == ("y", pytest.approx(measured, abs=1e-6))
    told = f"'y' {value:.1f} dB (outputs on the first sample, exact sums)"
    assert ("measured SQNR", told) in result.summary.rows()
    assert not any("poor" in note for note in result.summary.notes)


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8", "BFP16", "BF16", "FP16"])
def test_poor_outputs_are_named(preset):
    """Steps of 79, or of 64 where bfloat16 holds 10000, make 10001 and 10002 the same."""
    proto = tiny_model("g (float[N, 4] x) => (float[N, 4] y) { y = Softmax(x) }")
    result = quarkfast.quantize(proto, preset=preset, calibration_data=np.float32([[10000, 10001, 10002, 10003]]))
    (note,) = _poor(result)
    assert note.startswith("poor outputs on the first sample, with exact sums: 'y' ")
    assert note.endswith("leave layers float (exclude), or give activations more bits (activation_type)")
    assert ("(rounding='descent')" in note) == (preset not in ("BF16", "FP16"))


def _product():
    text = "g (float[N, 4] x) => (float[N, 4] y) { m = MatMul(x, w) y = Softmax(m) }"
    return tiny_model(text, {"w": np.eye(4, dtype=np.float32)}), np.float32([[10000, 10001, 10002, 10003]] * 8)


def test_what_has_been_tried_is_no_remedy():
    proto, rows = _product()
    (note,) = _poor(quarkfast.quantize(proto, preset="A8W8", calibration_data=rows, rounding="descent"))
    assert "rounding" not in note


def test_remedies_are_those_that_the_preset_takes():
    """Activations of DYNAMIC have 8 bits."""
    proto, rows = _product()
    (note,) = _poor(quarkfast.quantize(proto, preset="DYNAMIC", calibration_data=rows, strict=True))
    assert "(rounding='descent'), name a target (min_sqnr=20)" in note
    assert note.endswith("or leave layers float (exclude)")


def _poor(result):
    return [note for note in result.summary.notes if note.startswith("poor outputs")]


def test_nothing_is_measured_without_samples_or_on_random_ones():
    assert quarkfast.quantize(conv_relu_model(), preset="BF16").summary.outputs == ()
    assert quarkfast.quantize(conv_relu_model(), calibration_data="random").summary.outputs == ()


def test_a_result_that_does_not_run_is_told(monkeypatch):
    def refuse(*arguments, **options):
        raise ModelError("onnxruntime: no such operator")

    monkeypatch.setattr("quarkfast.pipeline.quantization_steps.output_sqnr", refuse)
    result = quarkfast.quantize(conv_relu_model(), calibration_data=samples())
    assert result.summary.outputs == ()
    assert "the outputs on the first sample are not known: onnxruntime: no such operator" in result.summary.notes


def test_a_result_that_no_default_session_opens_is_an_error_and_leaves_nothing(monkeypatch, tmp_path):
    real = ort.inference_session

    def refuse(model, options=None, *arguments, **named):
        optimized = options is not None and "ENABLE" in str(options.graph_optimization_level)
        if optimized and isinstance(model, bytes) and b"x_QuantizeLinear" in model:
            raise ModelError("inference_session: model: onnxruntime rejects it: Node (r_q) has two types")
        return real(model, options, *arguments, **named)

    monkeypatch.setattr(ort, "inference_session", refuse)
    with pytest.raises(ModelError) as caught:
        quarkfast.quantize(conv_relu_model(), tmp_path / "out.onnx", calibration_data=samples())
    assert str(caught.value) == (
        f"quantize: expected a result that a default session of onnxruntime {ort.runtime_version()} opens, got one "
        "that it rejects: Node (r_q) has two types; exclude the nodes that it names, or take another version"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_default_sessions_do_not_open_either_is_quantized_and_told(monkeypatch):
    def refuse(model):
        raise ModelError("inference_session: model: onnxruntime rejects it: no kernel")

    monkeypatch.setattr("quarkfast.evaluate.first_sample._open_optimized", refuse)
    notes = quarkfast.quantize(conv_relu_model(), calibration_data=samples()).summary.notes
    assert "default sessions of onnxruntime open neither the float model nor the result: no kernel" in notes


def test_plain_data_has_no_infinity():
    proto = tiny_model("g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }")
    result = quarkfast.quantize(proto, calibration_data=np.zeros((2, 4), np.float32))
    assert result.summary.outputs == (("y", float("inf")),)
    assert result.summary.to_dict()["outputs"] == [("y", None)]


def test_infinities_count_where_one_output_has_them_alone():
    text = "g (float[N] x) => (float[N] a, float[N] b, int64[K] s) {{ a = Identity(x) b = {}(x) s = Shape(x) }}"
    one, other = (tiny_model(text.format(kind)).SerializeToString() for kind in ("Identity", "Tanh"))
    assert output_sqnr(one, other, {"x": np.float32([1, -np.inf])}) == (("b", float("-inf")), ("a", float("inf")))


@pytest.mark.parametrize(
    ("shape", "reduction", "ratio"),
    # Of two values one is missing, the other is 2 instead of 1: noise of 1 and of 4 beside a signal of 5.
    [("float[]", "ReduceMax <keepdims = 0>", -np.inf), ("float[1]", "ReduceMax", 0.0)],
)
def test_outputs_of_other_ranks_are_nothing_alike_and_what_is_missing_is_zero(shape, reduction, ratio):
    one, other = (
        tiny_model(f"g (float[N] x) => ({kind} y) {{ y = {node}(x) }}").SerializeToString()
        for kind, node in (("float[N]", "Identity"), (shape, reduction))
    )
    assert output_sqnr(one, other, {"x": np.float32([1, 2])}) == (("y", pytest.approx(ratio)),)
