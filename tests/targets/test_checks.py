"""What the pre-flight says about models that did not compile for the NPU, rebuilt small."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast import ort
from quarkfast.cli import main
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.errors import ModelError
from support.tiny_models import conv_relu_model, tiny_model

NPU_PRESETS = ["A8W8", "A16W8", "XINT8", "BF16"]


def _findings(text, arrays=None, preset="A8W8", opset=17):
    return quarkfast.plan(tiny_model(text, arrays, opset), preset).preflight


def _only(found, word):
    (sentence,) = (each for each in found if word in each)
    return sentence


def _weights(*shape):
    return np.random.default_rng(3).normal(0, 0.2, shape).astype(np.float32)


def _detector(height="H", width="W", opset=11):
    """The text detector of PP-OCR in small: dynamic H and W, opset 11, a stem's pool, Resize, a transposed head."""
    text = f"""g (float[N, 3, {height}, {width}] x) => (float[A, B, C, D] y) {{
        a = Conv<pads = [1, 1, 1, 1], strides = [2, 2], kernel_shape = [3, 3]>(x, u)
        b = Relu(a)
        p = MaxPool<kernel_shape = [2, 2], strides = [1, 1], auto_pad = "SAME_UPPER", ceil_mode = 1>(b)
        q = AveragePool<kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1>(p)
        r = Resize<mode = "nearest">(q, roi, scales)
        t = ConvTranspose<strides = [2, 2], kernel_shape = [2, 2]>(r, v)
        y = Sigmoid(t)
    }}"""
    arrays = {"u": _weights(4, 3, 3, 3), "v": _weights(4, 1, 2, 2)}
    arrays |= {"roi": np.zeros(0, np.float32), "scales": np.float32([1, 1, 2, 2])}
    return tiny_model(text, arrays, opset)


@pytest.mark.parametrize("preset", NPU_PRESETS)
def test_a_text_detector_with_open_shapes_is_told_what_blocks_it(preset):
    """amd/RyzenAI-SW#172 and #264: dynamic shapes, an old operator set, the pool of PP-OCRv5's stem."""
    found = quarkfast.plan(_detector(), preset).preflight
    dims = "H, W" if preset == "BF16" else "N, H, W"
    expected = [
        f"input 'x': its shape [N,3,H,W] is open in {dims}, and the NPU takes fixed shapes alone; fix it: "
        "quarkfast convert fixed-shapes MODEL FIXED --shape x=1,3,H,W, with numbers for H, W",
        "MaxPool 'maxpool_2': auto_pad = SAME_UPPER and ceil_mode = 1 makes its size depend on the input's; "
        "fix the input's shape and look again",
        "AveragePool 'averagepool_3': ceil_mode = 1 makes its size depend on the input's; "
        "fix the input's shape and look again",
    ]
    assert [each for each in found if each in expected] == expected
    if preset != "A16W8":  # which needs operator set 21 itself
        assert re.match(r"model: the result has operator set 1[13], and AMD recommends 17 for the NPU; ", found[0])


def test_with_fixed_shapes_the_pool_itself_is_named():
    (sentence,) = quarkfast.plan(_detector("48", "320", opset=17), "BF16").preflight
    assert sentence == (
        "MaxPool 'maxpool_2': auto_pad = SAME_UPPER and ceil_mode = 1 gives 24 x 160 where kernel, strides and pads "
        "alone give 23 x 159, and the compiler has refused such a pool; write pads = [0, 0, 1, 1] in its place"
    )


@pytest.mark.parametrize("size", [(7, 8), (9, 12)], ids=str)
@pytest.mark.parametrize("how", ['auto_pad = "SAME_UPPER"', 'auto_pad = "SAME_LOWER"', "ceil_mode = 1"])
@pytest.mark.parametrize(
    "window", ["kernel_shape = [2, 2], strides = [1, 1]", "kernel_shape = [3, 2], strides = [2, 1]"]
)
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
def test_the_pads_that_it_advises_give_the_same_values(operator, window, how, size, rng):
    height, width = size
    text = "g (float[1, 2, %d, %d] x) => (float[A, B, C, D] y) { y = %s<%s, %s>(x) }"
    proto = tiny_model(text % (height, width, operator, window, how))
    found = quarkfast.plan(proto).preflight
    given = _run(proto, x := rng.standard_normal((1, 2, height, width)).astype(np.float32))
    if not found:
        plain = tiny_model(text % (height, width, operator, window, "pads = [0, 0, 0, 0]"))
        assert _run(plain, x).shape == given.shape
        return
    pads = re.search(r"; write (pads = \[.*\]) in its place", _only(found, operator)).group(1)
    advised = tiny_model(text % (height, width, operator, window, pads))
    assert np.array_equal(_run(advised, x), given)
    assert not quarkfast.plan(advised).preflight


def _run(proto, x):
    return ort.inference_session(proto.SerializeToString()).run(None, {"x": x})[0]


@pytest.mark.parametrize(
    ("size", "attributes"),
    [
        (7, "kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1, count_include_pad = 1"),
        (12, "kernel_shape = [2, 2], strides = [3, 3], ceil_mode = 1"),
    ],
)
def test_no_pads_are_advised_that_would_be_counted_or_are_larger_than_the_window(size, attributes):
    text = f"g (float[1, 2, {size}, {size}] x) => (float[A, B, C, D] y) {{ y = AveragePool<{attributes}>(x) }}"
    assert _only(_findings(text), "Pool").endswith("the compiler has refused such a pool; use a window that fits")


@pytest.mark.parametrize(
    ("body", "left", "islands"),
    [
        ("a = Relu(x) b = Det2(a) y = Relu(b)", 1, "2 subgraphs"),
        ("a = Relu(x) y = Det2(a)", 1, "1 subgraph;"),
        ("a = Det2(x) y = Relu(a)", 1, "1 subgraph;"),
        ("a = Det2(x) b = Relu(x) y = Add(a, b)", 1, "1 subgraph;"),
        ("a = Relu(x) b = Det2(a) y = Add(a, b)", 1, "2 subgraphs"),
        ("a = Relu(x) b = Det2(a) c = Tanh(a) d = Tanh(c) e = Tanh(b) y = Concat<axis = 1>(d, e)", 1, "2 subgraphs"),
        ("a = Relu(x) b = Det2(a) c = Relu(b) d = Det2(c) y = Relu(d)", 2, "3 subgraphs"),
        ("a = Det2(x) y = Det2(a)", 2, "nothing is left for the NPU"),
    ],
)
def test_subgraphs_are_counted_by_the_ways_over_the_cpu(body, left, islands):
    text = f"g (float[1, 4] x) => (float[1, 4] y) {{ {body.replace('Det2', 'Softplus')} }}"
    sentence = _only(_findings(text), "stay on the CPU")
    total = body.count("(")
    assert sentence.startswith(f"{left} of {total} nodes stay on the CPU, {left} Softplus ('softplus_")
    assert islands in sentence + ";"


def test_the_compiler_for_bf16_takes_floats_that_it_knows():
    text = "g (float[1, 4] x) => (float[1, 4] y) { a = Abs(x) b = Softplus(a) y = Neg(b) }"
    assert "1 of 3 nodes stay on the CPU, 1 Softplus ('softplus_1')" in _only(_findings(text, preset="BF16"), "CPU")
    assert "3 of 3 nodes stay on the CPU, 1 Abs, 1 Neg, 1 Softplus" in _only(_findings(text), "CPU")


def test_shapes_that_depend_on_data_and_arithmetic_on_integers_are_named():
    text = """g (float[1, 4] x) => (float[A, B] y) {
        a = Relu(x)
        i = NonZero(a)
        t = Transpose<perm = [1, 0]>(i)
        y = GatherND(a, t)
    }"""
    found = _findings(text)
    assert _only(found, "not known before").startswith("1 NonZero ('nonzero_1'): what shapes they give is not known")
    assert _only(found, "int64").startswith("1 NonZero, 1 Transpose ('nonzero_1', 'transpose_2'): they give int64")
    assert "3 of 4 nodes stay on the CPU" in _only(found, "stay on the CPU")


def test_shapes_that_are_only_computed_cut_nothing():
    text = """g (float[N, 4] x) => (float[A, B] y) {
        a = Relu(x)
        s = Shape(a)
        t = Concat<axis = 0>(s, one)
        r = Reshape(a, t)
        y = Relu(r)
    }"""
    found = _findings(text, {"one": np.int64([1])})
    assert not [each for each in found if "stay on the CPU" in each]
    assert "('shape_1', 'concat_2')" in _only(found, "int64")


def test_a_float16_input_is_named_with_its_remedy():
    text = "g (float16[1, 4] x) => (float16[1, 4] y) { y = Relu(x) }"
    sentence = _only(_findings(text), "float16")
    assert sentence == (
        "input 'x': its type is float16, which the NPU does not take; export the model with float32 inputs"
    )


def test_operators_that_ended_the_compiler_are_named():
    arrays = {"w": _weights(1, 8, 4), "r": _weights(1, 8, 2)}
    text = "g (float[3, 1, 4] x) => (float[A, B, C, D] y) { y = LSTM<hidden_size = 2>(x, w, r) }"
    sentence = _only(_findings(text, arrays, "BF16"), "LSTM")
    assert sentence == "1 LSTM ('lstm_0'): it has ended the process in the compiler; split the model there"


def test_quantized_operators_that_amd_does_not_list_are_doubtful():
    curve = "g (float[1, 4] x) => (float[1, 4] y) { y = Tanh(x) }"
    assert "1 Tanh ('tanh_0'): AMD's list for A8W8 does not name" in _only(_findings(curve), "vitisai_ep")
    assert not _findings(curve, preset="A16W8", opset=21)
    assert not _findings(curve, preset="BF16")


@pytest.mark.parametrize("preset", ["U8S8", "DYNAMIC", "INT8_WO", "MATMUL_NBITS"])
def test_other_targets_have_no_pre_flight(preset):
    assert quarkfast.plan(_detector(), preset).preflight == ()


@pytest.mark.parametrize("preset", NPU_PRESETS)
def test_a_model_that_was_quantized_says_what_the_plan_said(preset, rng):
    proto = _detector()
    feed = {"x": rng.standard_normal((1, 3, 32, 32)).astype(np.float32)}
    found = quarkfast.quantize(proto, preset=preset, calibration_data=[feed]).summary
    assert found.preflight == quarkfast.plan(proto, preset).preflight != ()
    assert ("NPU", found.preflight[0]) in found.rows()


@pytest.mark.filterwarnings("ignore:quantize. nothing in the model can be quantized")
def test_an_unchanged_copy_says_that_nothing_is_left_for_the_npu():
    proto = tiny_model("g (float[1, 4] x) => (float[1, 4] y) { y = Softplus(x) }")
    assert "nothing is left for the NPU" in _only(quarkfast.quantize(proto).summary.preflight, "CPU")


def test_a_finding_is_no_error_and_lies_in_the_json(tmp_path, capsys):
    path, report = tmp_path / "m.onnx", tmp_path / "report.json"
    onnx.save(conv_relu_model(), path)
    assert main(["plan", str(path), "--json"]) == ExitCode.OK
    planned = json.loads(capsys.readouterr().out)["preflight"]
    arguments = ["--calibration-data", "random", "--report", str(report)]
    assert main(["quantize", str(path), *arguments]) == ExitCode.OK
    assert json.loads(report.read_text())["preflight"] == planned
    assert "is open in N, and the NPU takes fixed shapes alone; fix it: quarkfast convert fixed-shapes " in planned[0]


@pytest.mark.parametrize(
    "attributes", ["strides = [1, 1]", "kernel_shape = [2]", "kernel_shape = [2, 2], strides = [0, 1]"]
)
def test_a_pool_that_runs_nowhere_is_one_sentence(attributes):
    text = f"g (float[1, 2, 7, 7] x) => (float[1, 2, 4, 4] y) {{ y = MaxPool<{attributes}, ceil_mode = 1>(x) }}"
    with pytest.raises(ModelError, match=r"node 'maxpool_0': expected .* MaxPool"):
        _findings(text)


def test_the_command_that_fixes_shapes_is_one_that_works(tmp_path):
    onnx.save(_detector(), tmp_path / "m.onnx")
    sentence = _only(quarkfast.plan(_detector()).preflight, "is open in N, H, W")
    command = re.search(r"fix it: (quarkfast convert .*), with numbers for H, W", sentence).group(1)
    for name, number in {"MODEL": "m.onnx", "FIXED": "fixed.onnx", "H,W": "48,320"}.items():
        command = command.replace(name, number)
    subprocess.run([sys.executable, "-m", *command.split()], check=True, cwd=tmp_path, capture_output=True)
    found = quarkfast.plan(tmp_path / "fixed.onnx").preflight
    assert not [each for each in found if "is open" in each]
    assert "gives 24 x 160 where kernel, strides and pads alone give 23 x 159" in _only(found, "MaxPool")


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (
            "shape",
            "its shape is unknown, and the NPU takes fixed shapes alone; fix it: quarkfast convert fixed-shapes MODEL "
            "FIXED --shape x=..., with numbers for the dots",
        ),
        (
            "dim",
            "its shape [?,4] is open in ?, and the NPU takes fixed shapes alone; fix it: quarkfast convert "
            "fixed-shapes MODEL FIXED --shape x=1,4",
        ),
    ],
)
def test_an_input_without_names_of_dimensions_is_named_too(field, said):
    proto = tiny_model("g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }")
    tensor = proto.graph.input[0].type.tensor_type
    tensor.ClearField("shape") if field == "shape" else tensor.shape.dim[0].ClearField("dim_param")
    assert said in _only(quarkfast.plan(proto).preflight, "input 'x'")
