"""Models in float16 are quantized like others, and keep the types of their inputs and outputs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.graph.load import load_model
from quarkfast.graph.notes import notes_of
from quarkfast.pipeline.prepare import prepare
from support.processors import run_exact
from support.tiny_models import samples, tiny_model

W = np.random.default_rng(3).normal(0, 0.3, (3, 3, 3, 3)).astype(np.float16)


def _model(kept=False):
    """Conv -> Resize -> Add of a generated constant -> Relu in float16; with `kept`, float32 outside."""
    kind = "float" if kept else "float16"
    enter, leave = ("h = Cast<to = 10>(x)", "y = Cast<to = 1>(r)") if kept else ("h = Identity(x)", "y = Identity(r)")
    text = f"""g ({kind}[N, 3, 8, 8] x) => ({kind}[N, 3, 16, 16] y) {{
        {enter}
        c = Conv<pads = [1, 1, 1, 1]>(h, w, b)
        z = Resize<mode = "linear">(c, , scales)
        one = ConstantOfShape<value = tensor_of_half>(shape)
        s = Add(z, one)
        r = Relu(s)
        {leave}
    }}"""
    arrays = {"w": W, "b": np.float16([0.1, -0.2, 0.3]), "scales": np.float32([1, 1, 2, 2]), "shape": np.int64([1])}
    proto = tiny_model(text.replace("<value = tensor_of_half>", ""), arrays)
    for node in proto.graph.node:
        if node.op_type == "ConstantOfShape":
            value = onnx.numpy_helper.from_array(np.float16([0.5]))
            node.attribute.append(onnx.helper.make_attribute("value", value))
    return proto


def _run(model, x):
    return run_exact(model, {"x": x})[0]


@pytest.mark.parametrize("kept", [False, True], ids=["float16 outside", "float32 outside"])
@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8", "A16W8", "DYNAMIC", "BF16", "FP16", "MX9"])
def test_a_float16_model_is_quantized_and_keeps_its_inputs_and_outputs(preset, kept):
    proto = _model(kept)
    x = samples().astype(np.float32 if kept else np.float16)
    result = quarkfast.quantize(proto, preset=preset, calibration_data=x)
    onnx.checker.check_model(result.proto, full_check=True)
    assert list(result.proto.graph.input) == list(proto.graph.input)
    assert [v.type.tensor_type.elem_type for v in result.proto.graph.output] == [1 if kept else 10]
    expected, got = _run(proto.SerializeToString(), x), _run(result.model_bytes, x)
    assert got.dtype == expected.dtype
    noise = np.square(expected.astype(np.float64) - got).sum()
    assert 10 * np.log10(np.square(expected, dtype=np.float64).sum() / noise) > 24
    assert result.summary.quantized["Conv"] == 1
    assert [note for note in result.summary.notes if "float16" in note]


def test_scales_of_a_float16_model_are_float32():
    x = samples().astype(np.float16)
    result = quarkfast.quantize(_model(), preset="A8W8", calibration_data=x)
    kinds = {each.data_type for each in result.proto.graph.initializer if each.name.endswith("_scale")}
    assert kinds == {onnx.TensorProto.FLOAT}


def test_an_input_handed_out_stays_float16():
    proto = _model()
    proto.graph.output.append(proto.graph.input[0])
    x = samples().astype(np.float16)
    result = quarkfast.quantize(proto, preset="BF16")
    np.testing.assert_array_equal(ort.inference_session(result.model_bytes).run(["x"], {"x": x})[0], x)


def test_widening_twice_is_widening_once():
    once = prepare(load_model(_model()), 13)
    names = [node.name for node in once.graph]
    assert [node.name for node in prepare(once, 13).graph] == names


def test_a_model_quantized_to_pairs_of_casts_stays_what_it_is():
    once = quarkfast.quantize(_model(), preset="FP16", bf16_qdq_to_cast=True)
    assert len(notes_of(prepare(load_model(_model()), 13))) == 1
    assert notes_of(prepare(load_model(once.proto), 13)) == ()
