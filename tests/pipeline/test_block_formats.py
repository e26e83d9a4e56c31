from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.config import PRESETS
from quarkfast.config.quark import get_default_config, scheme_of
from quarkfast.errors import ConfigError, UnsupportedError
from quarkfast.formats.block import BLOCK_FORMATS
from support.processors import run_exact
from support.tiny_models import conv_relu_model, samples, tiny_model

BLOCK_PRESETS = [name for name, scheme in PRESETS.items() if scheme.weight.is_block]


@pytest.fixture(autouse=True)
def _schemas():
    quarkfast.register_schemas()


def _run(model, x):
    return run_exact(model, {"x": x})[0]


def _attention():
    rng = np.random.default_rng(7)
    text = """g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) {
        c1 = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
        r1 = Relu (c1)
        m = MatMul (r1, wm)
        s = Softmax (m)
        a = Add (s, k)
        m2 = MatMul (a, s)
        y = Add (m2, x)
    }"""
    shapes = {"w1": (3, 3, 3, 3), "b1": (3,), "wm": (8, 8), "k": (8,)}
    return tiny_model(text, {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()})


# Input and axis of every node that AMD Quark 0.13 writes into the model above with its presets BFP16, MX6 and
# MXFP4E2M1, recorded with onnxruntime 1.31.1; but for c1 and m: no
# node between Conv and Relu here, nor before the Softmax of an attention.
QUARK_AXES = {
    "b1": 0, "k": 0, "w1": 1, "wm": 0, "x": 1, "r1": -1, "s": -2, "a": -1, "m2": -1, "y_QuantizeLinear_Input": 1,
}  # fmt: skip
QUARK_ATTRIBUTES = {
    "BFP16": {
        "bfp_method": b"to_bfp", "bit_width": 16, "block_size": 8, "rounding_mode": 2, "sub_block_size": 2,
        "sub_block_shift_bits": 1, "convert_to_bfloat_before_bfp": 0,
    },
    "MX6": {
        "bfp_method": b"to_bfp_prime", "bit_width": 13, "block_size": 16, "rounding_mode": 2, "sub_block_size": 2,
        "sub_block_shift_bits": 1, "convert_to_bfloat_before_bfp": 0,
    },
    "MXFP4E2M1": {"element_dtype": b"fp4_e2m1", "block_size": 32, "rounding_mode": 2},
}  # fmt: skip


@pytest.mark.parametrize("preset", QUARK_ATTRIBUTES)
def test_the_nodes_are_those_that_quark_writes(preset):
    scheme = replace(PRESETS[preset], target="ryzenai-bf16", bias="weight")  # as Quark places them
    proto = quarkfast.quantize(_attention(), preset=scheme).proto
    nodes = [node for node in proto.graph.node if node.domain == "com.amd.quark"]
    found = {}
    for node in nodes:
        attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        tensor = node.input[0].removesuffix("_quantized")  # of a constant whose largest value would be cut off
        found[tensor] = attributes.pop("axis")
        assert attributes == QUARK_ATTRIBUTES[preset]
        assert node.name == tensor.replace("y_QuantizeLinear_Input", "y") + "_DequantizeLinear"
    assert found == QUARK_AXES


@pytest.mark.parametrize("preset", BLOCK_PRESETS)
def test_every_block_preset_passes_the_checker_and_runs(preset):
    result = quarkfast.quantize(_attention(), preset=preset)
    onnx.checker.check_model(result.proto, full_check=True)
    assert np.isfinite(_run(result.model_bytes, samples())).all()


# One rounding of a value costs at most half of a step, 2^-(mantissa bits + 1) of the block's largest one; three
# roundings in a row and a sum over 27 products stay below 2^-4 of the output's largest value in formats of 7 bits.
@pytest.mark.parametrize("preset", ["BFP16", "MX9", "MXINT8"])
def test_eight_bit_blocks_stay_close(preset):
    x = samples()
    expected = _run(conv_relu_model(), x)
    got = _run(quarkfast.quantize(conv_relu_model(), preset=preset).model_bytes, x)
    assert np.abs(got - expected).max() < 2.0**-4 * np.abs(expected).max()


@pytest.mark.parametrize("preset", BLOCK_PRESETS)
def test_packed_weights_give_the_values_of_rounded_ones(preset):
    rng = np.random.default_rng(5)
    text = "g (float[N, 64, 4, 4] x) => (float[N, 10] y) { c = Conv(x, w, b) f = Flatten(c) y = MatMul(f, m) }"
    shapes = {"w": (16, 64, 3, 3), "b": (16,), "m": (64, 10)}
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    x = samples(4, (64, 4, 4))
    rounded, packed = (
        quarkfast.quantize(tiny_model(text, arrays), preset=preset, packed_weights=choice) for choice in (False, True)
    )
    onnx.checker.check_model(packed.proto, full_check=True)
    np.testing.assert_array_equal(_run(packed.model_bytes, x), _run(rounded.model_bytes, x))
    stored = {each.name: each for each in packed.proto.graph.initializer}
    bias = "b_packed" if preset == "BFP16" else "b"
    assert {"w_packed", bias, "m_packed", "quarkfast_float32"} == set(stored)
    bits = 8 * sum(len(stored[f"{name}_packed"].raw_data) for name in "wm")
    assert bits == BLOCK_FORMATS[PRESETS[preset].weight.dtype].bits * (16 * 576 + 640)


def test_the_summary_says_what_packing_came_to():
    proto = conv_relu_model(w2=np.ones((3, 3, 1, 1), np.float32))
    result = quarkfast.quantize(proto, preset="MX4", packed_weights=True)
    assert result.summary.notes[0].endswith("bits each, 4 in full blocks")


def test_quantizing_blocks_twice_is_quantizing_once():
    once = quarkfast.quantize(_attention(), preset="MX6").proto
    with pytest.warns(UserWarning, match="quantize: expected a float model, got one with"):
        twice = quarkfast.quantize(once, preset="MX6").proto
    assert twice.graph.node == once.graph.node


def test_a_tensor_read_along_two_axes_has_two_nodes():
    text = "g (float[2, 4, 4] x) => (float[2, 4, 4] y) { r = Relu(x) y = MatMul(r, r) }"
    proto = quarkfast.quantize(tiny_model(text), preset="MX9").proto
    nodes = [node for node in proto.graph.node if node.input[0] == "r"]
    axes = {node.name: next(each.i for each in node.attribute if each.name == "axis") for node in nodes}
    assert axes == {"r_DequantizeLinear": -1, "r_DequantizeLinear_1": -2}


def test_mixed_formats_keep_the_format_of_each():
    layer = quarkfast.QLayerConfig(input_tensors=quarkfast.BFloat16Spec(), weight=quarkfast.MXFP4E2M1Spec())
    proto = quarkfast.ModelQuantizer(quarkfast.QConfig(layer)).quantize_model(conv_relu_model())
    counts = {node.op_type for node in proto.graph.node}
    assert {"ExtendedQuantizeLinear", "MXQuantizeDequantize"} <= counts
    assert "BFPQuantizeDequantize" not in counts


@pytest.mark.parametrize("preset", BLOCK_PRESETS)
def test_quarks_name_of_a_block_format_resolves_to_the_preset(preset):
    assert scheme_of(get_default_config(preset)) == PRESETS[preset]


def test_the_ready_made_bfp16_rounds_halves_away_from_zero_as_in_quark():
    assert scheme_of(quarkfast.BFP16_QCONFIG).block_rounding == "half_away"
    assert scheme_of(get_default_config("BFP16")).block_rounding == "half_even"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"preset": "A8W8", "packed_weights": True},
            ConfigError,
            "packed_weights: expected weights in a block format, got int8",
        ),
        (
            {"preset": "MX9", "packed_weights": True, "keep_float_weights": True},
            ConfigError,
            "packed_weights: expected it or keep_float_weights, got both",
        ),
    ],
)
def test_packing_what_cannot_be_packed_is_one_sentence(options, error, message):
    with pytest.raises(error, match=message):
        quarkfast.quantize(conv_relu_model(), **options)


@pytest.mark.parametrize(
    ("key", "attributes", "message"),
    [
        (
            "BFPAttributes",
            {"bit_width": 17},
            "option BFPAttributes: expected the attributes of bfp16, mx4, mx6",
        ),
        ("BFPAttributes", {"axis": 2}, "option BFPAttributes: expected the attributes of"),
        ("MXAttributes", {"element_dtype": "fp3"}, r"option MXAttributes: expected the attributes of mxint8, .*, got"),
        ("BFPAttributes", {"rounding_mode": 3}, "rounding_mode: expected 0, 1 or 2, got 3"),
    ],
)
def test_attributes_of_no_format_are_one_sentence(key, attributes, message):
    config = get_default_config("BFP16" if key == "BFPAttributes" else "MXINT8")
    config.extra_options[key] = attributes
    with pytest.raises(UnsupportedError, match=message):
        scheme_of(config)


@pytest.mark.parametrize(("preset", "most"), [("MX9", 9.05), ("MX6", 6.05), ("MX4", 4.05), ("MXFP4E2M1", 4.5)])
def test_resnet56_has_the_size_that_its_bits_promise(shared, preset, most):
    """Stage one has 16 channels: half a block of 32, which is why MXFP4 takes 4.5 bits and not 4.25."""
    result = quarkfast.quantize(shared / "models" / "resnet56_cifar10.onnx", preset=preset, packed_weights=True)
    packed = [each for each in result.proto.graph.initializer if each.name.endswith("_packed")]
    weights = {node.input[0]: node for node in result.proto.graph.node if node.op_type == "DequantizeBlock"}
    assert {each.name for each in packed} == set(weights)
    floats = onnx.load(shared / "models" / "resnet56_cifar10.onnx").graph.initializer
    count = sum(int(np.prod(each.dims)) for each in floats if len(each.dims) > 1)
    assert 8 * sum(len(each.raw_data) for each in packed) <= most * count
    assert f"as {PRESETS[preset].weight.dtype} in" in result.summary.notes[0]


@pytest.mark.parametrize("name", ["BF16_BFP16", "BF16_MXINT8", "MX9_INT8"])
def test_quarks_mixed_presets_keep_both_types(name):
    quantizer = quarkfast.ModelQuantizer(quarkfast.QConfig.get_default_config(name))
    types = {"BF16_BFP16": ("bfloat16", "bfp16"), "BF16_MXINT8": ("bfloat16", "mxint8"), "MX9_INT8": ("mx9", "int8")}
    assert (quantizer.scheme.activation.dtype, quantizer.scheme.weight.dtype) == types[name]
    proto = quantizer.quantize_model(conv_relu_model())
    onnx.checker.check_model(proto, full_check=True)
    x = samples()
    expected, got = _run(conv_relu_model(), x), _run(proto, x)
    assert np.abs(got - expected).max() < 2.0**-4 * np.abs(expected).max()
