"""float16_scales: a float16 model stays in float16, with scales that are numbers of float16."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quarkfast
from quarkfast import ort
from quarkfast.compat.quark.onnx import ModelQuantizer
from quarkfast.config.quark import Config, get_default_config, scheme_of
from quarkfast.deferred import ir
from quarkfast.errors import ConfigError, UnsupportedError
from quarkfast.evaluate import sqnr
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.transforms.float_types import change_float_type
from quarkfast.transforms.half_precision import narrow_half
from quarkfast.transforms.infer_types import infer_types
from support.processors import run_exact
from support.tiny_models import samples, tiny_model

RNG = np.random.default_rng(3)
MEAN = np.float32([0.485, 0.456, 0.406])[:, None, None]
STD = np.float32([0.229, 0.224, 0.225])[:, None, None]
W = RNG.normal(0, 0.3, (3, 3, 3, 3)).astype(np.float16)
B = np.float16([0.1, -0.2, 0.3])
FLOATS = {onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.BFLOAT16}


def model(weight=W, bias=B, *, outside="float16"):
    """Conv -> Relu in float16; inputs and outputs in another type stand behind Casts."""
    enter, leave = ("Identity(x)", "Identity(r)") if outside == "float16" else ("Cast<to = 10>(x)", "Cast<to = 1>(r)")
    text = f"""g ({outside}[N, 3, 8, 8] x) => ({outside}[N, 3, 8, 8] y) {{
        h = {enter}
        c = Conv<pads = [1, 1, 1, 1]>(h, w, b)
        r = Relu(c)
        y = {leave}
    }}"""
    return tiny_model(text, {"w": weight, "b": bias})


def quantized(proto=None, x=None, preset="A8W8", **options):
    given = samples().astype(np.float16) if x is None else x
    return quarkfast.quantize(
        proto or model(), preset=preset, calibration_data=given, float16_scales=True, strict=True, **options
    )


def arrays_of(proto):
    return {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}


def default(data, x):
    return ort.inference_session(data).run(None, {"x": x})[0]


@pytest.mark.parametrize("outside", ["float16", "float"])
@pytest.mark.parametrize(
    ("preset", "opset"), [("A8W8", 19), ("U8S8", 19), ("A16W8", 21), ("U8S8_AAWS", 19), ("S16S8_ASWS", 21)]
)
def test_all_floats_of_the_result_are_float16(preset, opset, outside):
    x = samples().astype(np.float16 if outside == "float16" else np.float32)
    if preset in quarkfast.PRESETS:
        proto = quantized(model(outside=outside), x, preset).proto
    else:
        config = get_default_config(preset)
        config.extra_options["UseFP32Scale"] = False
        feed = [{"x": each[None]} for each in x]
        proto = ModelQuantizer(Config(config)).quantize_model(model(outside=outside), None, feed)
    onnx.checker.check_model(proto, full_check=True)
    assert proto.opset_import[0].version == opset
    assert not {each.data_type for each in proto.graph.initializer} & FLOATS
    assert [node.op_type for node in proto.graph.node].count("Cast") == (0 if outside == "float16" else 2)
    assert list(proto.graph.input) == list(model(outside=outside).graph.input)
    assert [each.name for each in proto.graph.output] == ["y"]
    data = proto.SerializeToString()
    expected, got = run_exact(model(outside=outside).SerializeToString(), {"x": x})[0], run_exact(data, {"x": x})[0]
    assert got.dtype == x.dtype
    assert sqnr(expected.astype(np.float32), got.astype(np.float32)) > 30
    assert np.array_equal(default(data, x), got), "onnxruntime's optimizations change nothing"


@pytest.mark.parametrize("per_channel", [False, True])
def test_codes_are_those_of_the_scales_that_are_stored(per_channel):
    result = quantized(per_channel=per_channel)
    arrays = arrays_of(result.proto)
    scale, codes = arrays["w_scale"], arrays["w_quantized"]
    exact = np.abs(W.astype(np.float64)).max(axis=(1, 2, 3) if per_channel else None) / 127
    assert scale.dtype == np.float16
    assert np.array_equal(scale, exact.astype(np.float16))
    wide = scale.astype(np.float32).reshape(-1, 1, 1, 1)
    assert np.array_equal(codes, np.clip(np.rint(W.astype(np.float32) / wide), -127, 127).astype(np.int8))


def test_outputs_are_those_of_float32_arithmetic_between_the_same_pairs_but_for_a_step():
    result, x = quantized(), samples().astype(np.float16)
    wide = load_model(result.proto)
    infer_types(wide)
    change_float_type(wide, ir.DataType.FLOAT16, ir.DataType.FLOAT, keep_ends=True)
    expected, got = run_exact(serialize(wide), {"x": x})[0], run_exact(result.model_bytes, {"x": x})[0]
    last = next(node for node in result.proto.graph.node if "y" in node.output)
    step = float(arrays_of(result.proto)[last.input[1]])
    assert (np.abs(expected.astype(np.float64) - got) <= step + rounded(x)).all()


def rounded(x):
    """What rounding to float16 adds to a sum: 2^-11 of each factor, of the sum, and of what is handed out."""
    largest = np.abs(x.astype(np.float64)).max() * np.abs(W.astype(np.float64)).sum(axis=(1, 2, 3)).max()
    return 4 * 2**-11 * (largest + np.abs(B).max())


@given(st.floats(1e-7, 6e4), st.sampled_from(["int8", "uint8", "int16", "uint16"]))
@settings(max_examples=40, deadline=None)
def test_onnxruntime_divides_and_multiplies_by_float16_scales_in_float32(size, dtype):
    scale = np.float16(size)
    text = f"""g (float16[N] x) => ({dtype}[N] q, float16[N] y) {{
        q = QuantizeLinear(x, s, z)
        y = DequantizeLinear(q, s, z)
    }}"""
    proto = tiny_model(text, {"s": scale, "z": np.zeros((), dtype)}, opset=21, ir_version=10)
    x = np.arange(2**16, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)]
    codes, back = ort.inference_session(proto.SerializeToString()).run(None, {"x": x})
    ends = np.iinfo(dtype)
    with np.errstate(over="ignore"):
        assert np.array_equal(codes, np.clip(np.rint(x.astype(np.float32) / np.float32(scale)), ends.min, ends.max))
        assert np.array_equal(back, (codes.astype(np.float32) * np.float32(scale)).astype(np.float16))


@pytest.mark.parametrize("preset", ["A8W8", "A16W8"])
def test_pairs_of_onnxruntimes_domain_have_the_same_codes_at_the_models_own_operator_set(preset):
    found, standard = quantized(preset=preset, contrib_pairs=True), quantized(preset=preset)
    assert found.proto.opset_import[0].version == model().opset_import[0].version
    one, other = arrays_of(found.proto), arrays_of(standard.proto)
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) and one[name].dtype == other[name].dtype for name in one)
    # onnxruntime has no float16 kernel of these: what is between them is not rounded to float16.
    x, last = samples().astype(np.float16), next(node for node in found.proto.graph.node if "y" in node.output)
    given, expected = (run_exact(each.model_bytes, {"x": x})[0].astype(np.float64) for each in (found, standard))
    assert (np.abs(given - expected) <= float(one[last.input[1]]) + rounded(x)).all()


def test_scales_that_float16_has_no_normal_number_for_are_rounded_up():
    tiny = (W.astype(np.float32) * 1e-4).astype(np.float16)
    arrays = arrays_of(quantized(model(tiny)).proto)
    assert arrays["w_scale"] == np.ceil(np.abs(tiny.astype(np.float64)).max() / 127 * 2**24) * 2.0**-24
    assert np.abs(arrays["w_quantized"]).max() <= 127
    assert (arrays["b_quantized_scale"] >= np.float16(2**-24)).all()


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("preset", ["A8W8", "A16W8"])
def test_biases_stay_what_they_are_to_half_a_step_of_their_scale(preset, size):
    bias = (B.astype(np.float32) * size).astype(np.float16)
    arrays = arrays_of(quantized(model(bias=bias), preset=preset).proto)
    scale = arrays["b_quantized_scale"].astype(np.float64)
    assert (np.abs(arrays["b_quantized"] * scale - bias) <= scale / 2).all()


@pytest.mark.parametrize("options", [{"bias": "float"}, {"weight_type": "int16"}])
def test_float_biases_are_the_same_in_a_default_session(options):
    x = samples().astype(np.float16)
    data = quantized(preset="A16W8", **options).model_bytes
    assert np.array_equal(default(data, x), run_exact(data, {"x": x})[0])


def test_ranges_that_float16_scales_cannot_hold_are_refused():
    wide = {"w": {"range": [0.0, 65504.0 * 256]}}
    with pytest.raises(UnsupportedError, match=r"float16 scales: expected scales of at most 65504 .*; use float32"):
        quantized(tensors=wide)


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_model_that_computes_in_another_type_is_refused(kind):
    text = f"g ({kind}[N, 3, 8, 8] x) => ({kind}[N, 3, 8, 8] y) {{ y = Relu(x) }}"
    got = "float32 in tensor '[xy]'" if kind == "float" else "one without float16"
    with pytest.raises(UnsupportedError, match=rf"float16_scales: .* throughout, got {got}; leave the option out"):
        quantized(tiny_model(text, {}), samples())


def test_a_float32_part_is_refused():
    text = """g (float16[N, 3, 8, 8] x) => (float16[N, 3, 8, 8] y) {
        a = Relu(x)  w = Cast<to = 1>(a)  e = Exp(w)  y = Cast<to = 10>(e)
    }"""
    with pytest.raises(UnsupportedError, match="got float32 in tensor 'w'"):
        quantized(tiny_model(text, {}))


@pytest.mark.parametrize("preset", ["XINT8", "BF16", "MX9", "DYNAMIC", "INT8_WO"])
def test_presets_without_float_scales_are_refused(preset):
    with pytest.raises(ConfigError, match=rf"float16_scales: .* such as A8W8, got {preset}; leave it out"):
        quantized(preset=preset)


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"layers": [{"op_types": ["Conv"], "activation": {"dtype": "bfloat16"}}]}, "got bfloat16 for some"),
        ({"layers": [{"op_types": ["Conv"], "weight": {"scale": "float32"}}]}, "got float32 scales for some"),
    ],
)
def test_what_needs_float32_beside_it_is_refused(options, got):
    with pytest.raises(ConfigError, match=f"float16_scales: .*{got}"):
        quantized(**options)


def test_quarks_keys_refuse_it_for_other_scales():
    config = get_default_config("XINT8")
    config.extra_options["UseFP32Scale"] = False
    with pytest.raises(UnsupportedError, match="option UseFP32Scale=False: expected integers with float scales"):
        scheme_of(config)


def test_the_summary_does_not_say_that_the_model_became_float32():
    assert not [note for note in quantized().summary.notes if "float32" in note]


def test_the_same_bytes_again():
    assert all(one == other for one, other in pairwise(quantized().model_bytes for _ in range(2)))


def test_a_real_network_loses_no_more_than_with_float32_scales(shared):
    proto = load_model(shared / "models" / "resnet20_cifar10.onnx")
    infer_types(proto)
    change_float_type(proto, ir.DataType.FLOAT, ir.DataType.FLOAT16, keep_ends=False)
    data = serialize(proto)
    with np.load(shared / "data" / "cifar10_calib.npz") as file:
        pixels = file["x"][:96].astype(np.float32) / 255
    x = ((pixels - MEAN) / STD).astype(np.float16)
    found = {}
    for half in (False, True):
        result = quarkfast.quantize(
            onnx.load_from_string(data), preset="A8W8", calibration_data=x[:32], float16_scales=half
        )
        outputs = [run_exact(model, {"input": x[32:]})[0].astype(np.float32) for model in (data, result.model_bytes)]
        found[half] = sqnr(*outputs)
        if half:
            assert not {each.data_type for each in result.proto.graph.initializer} & FLOATS
            assert not quarkfast.check_model(result.proto, "ryzenai-a8w8").errors
    # Scales move by 2^-11 at most, so that other values lie at ties: half a decibel covers what that draws.
    assert found[True] > found[False] - 0.5


def test_a_scale_of_the_users_is_rounded_too():
    assert arrays_of(quantized(tensors={"w": {"scale_value": 0.1}}).proto)["w_scale"] == np.float16(0.1)


@pytest.mark.parametrize(
    ("scale", "factor", "expected"),
    [
        (0.1, 1, r"node .*: expected scales that float16 holds, got 0\.1"),
        (0.5, 1e5, r"constant 'c': expected at most 65504, got 100000\.0; leave the option out"),
    ],
)
def test_numbers_that_float16_does_not_hold_are_refused(scale, factor, expected):
    text = """g (float[N, 3, 8, 8] x) => (float y) {
        q = QuantizeLinear(x, s, z)
        d = DequantizeLinear(q, s, z)
        y = Mul(d, c)
    }"""
    arrays = {"s": np.float32(scale), "z": np.int8(0), "c": np.float32([factor])}
    with pytest.raises(UnsupportedError, match=f"float16_scales: {expected}"):
        narrow_half(load_model(tiny_model(text, arrays, opset=19, ir_version=9)))
