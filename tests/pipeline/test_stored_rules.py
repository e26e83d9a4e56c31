"""Weights alone where single layers and tensors have a form of their own."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import quarkfast
from quarkfast import kernels
from quarkfast.config import Scheme, scheme_from
from quarkfast.errors import ConfigError
from quarkfast.evaluate import sqnr
from quarkfast.quantization.weight_only.codes import scales_of
from support.tiny_models import run_exactly, tiny_model
from support.weight_models import changed_weights, tied_model, weight_layers

SUMS = {"w1": 0, "w2": 0, "w3": 1, "w4": 1}
CHANNELS = {"table": 1, "w1": 1, "w2": 1, "w3": 0, "w4": 0}


def _groups(array, axis, code, size=128):
    parts = np.split(array, range(size, array.shape[axis], size), axis)
    low, high = (np.stack([each(part, axis) for part in parts], axis) for each in (np.min, np.max))
    found = scales_of(low, high, code, symmetric=True, mirrored=code.endswith("int4"))
    sign = np.take(np.repeat(np.sign(found.scale), size, axis), range(array.shape[axis]), axis)
    steps, zero = np.abs(found.scale), found.zero_point
    codes = kernels.quantize_linear(sign * array, steps, zero, dtype=code, axis=axis, block_size=size)
    decoded = kernels.dequantize_linear(codes, steps, zero.astype(codes.dtype), axis=axis, block_size=size)
    return np.asarray(sign * decoded, np.float32)


def _channels(array, axis, code):
    others = tuple(each for each in range(array.ndim) if each != axis)
    found = scales_of(array.min(others), array.max(others), code, symmetric=True)
    codes = kernels.quantize_linear(array, found.scale, dtype=code, axis=axis)
    return np.asarray(kernels.dequantize_linear(codes, found.scale, axis=axis), np.float32)


def _as_half(array, _axis, code):
    return array.astype({"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[code]).astype(np.float32)


def _forms(**others):
    """Returns groups of 4 bits for layers, 8 bits for the table, and forms (function, axes, code) of others."""
    return dict.fromkeys(SUMS, (_groups, SUMS, "int4")) | {"table": (_channels, CHANNELS, "int8")} | others


CASES = {
    "more bits for one weight": ("INT4_WO", {"tensors": {"w3": {"dtype": "int8"}}}, _forms(w3=(_groups, SUMS, "int8"))),
    "floats for one weight": (
        "INT4_WO",
        {"tensors": {"w1": {"dtype": "bfloat16"}}},
        _forms(w1=(_as_half, SUMS, "bfloat16")),
    ),
    "channels for one weight": (
        "INT4_WO",
        {"tensors": {"w2": {"granularity": "channel"}}},
        _forms(w2=(_channels, CHANNELS, "int4")),
    ),
    "a table in floats as it is": (
        "INT4_WO",
        {"layers": [{"op_types": ["Gather"], "weight": {"dtype": "float32"}}]},
        dict.fromkeys(SUMS, (_groups, SUMS, "int4")),
    ),
    "fewer bits kept from a table": ("INT4_WO", {"strict": True}, dict.fromkeys(SUMS, (_groups, SUMS, "int4"))),
    "a table in floats": (
        "INT4_WO",
        {"layers": [{"op_types": ["Gather"], "weight": {"dtype": "float16"}}]},
        _forms(table=(_as_half, CHANNELS, "float16")),
    ),
    "fewer bits for one type": (
        "INT8_WO",
        {"layers": [{"op_types": ["Gemm"], "weight": {"dtype": "int4"}}], "exclude_op_types": ["Gather"]},
        {name: (_channels, CHANNELS, code) for name, code in zip(SUMS, ("int8", "int4", "int4", "int8"), strict=True)},
    ),
    "float weights": (
        "INT4_WO",
        {"layers": [{"op_types": ["Gemm"], "weight": {"dtype": "float32"}}]},
        {name: form for name, form in _forms().items() if name not in ("w2", "w3")},
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_models_compute_what_weights_of_those_forms_compute(rng, name):
    preset, options, forms = CASES[name]
    proto, x = weight_layers(rng), rng.integers(0, 50, 9)
    result = quarkfast.quantize(proto, preset=preset, **options)
    onnx.checker.check_model(result.proto)

    def change(weight, array):
        function, axes, code = forms.get(weight, (None, {}, ""))
        return array if function is None else function(array, axes[weight], code)

    rounded = changed_weights(proto, change, result.summary.opset)
    (expected,), (got,) = run_exactly(rounded, {"x": x}), run_exactly(result.proto, {"x": x})
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("rule", "types"),
    [
        ({"w3": {"dtype": "int8"}}, ["MatMulNBits", "MatMulNBits", "Add", "MatMulNBits", "MatMulNBits"]),
        (
            {"t4": {"dtype": "float16"}},
            ["Cast", "MatMulNBits", "MatMulNBits", "Add", "MatMulNBits", "MatMul"],
        ),
        ({"t4": {"dtype": "float32"}}, ["MatMulNBits", "MatMulNBits", "Add", "MatMulNBits", "MatMul"]),
    ],
    ids=str,
)
def test_products_are_packed_in_the_bits_of_their_weight(rng, rule, types):
    proto, x = weight_layers(rng), rng.integers(0, 50, 9)
    asked, changed = (quarkfast.quantize(proto, preset="MATMUL_NBITS", tensors=each).proto for each in ({}, rule))
    looked_up = ("Gather", "DequantizeLinear")
    assert [node.op_type for node in changed.graph.node if node.op_type not in looked_up] == types
    bits = {node.name: node.attribute for node in changed.graph.node if node.op_type == "MatMulNBits"}
    wide = [name for name, each in bits.items() if any(a.name == "bits" and a.i == 8 for a in each)]
    assert len(wide) == ("int8" in str(rule))
    expected, plain, better = (run_exactly(each, {"x": x})[0] for each in (proto, asked, changed))
    assert np.square(better - expected).sum() < np.square(plain - expected).sum()


def test_tables_of_eight_bits_stand_beside_packed_products(rng):
    proto, x = weight_layers(rng), rng.integers(0, 50, 9)
    made, packed = (quarkfast.quantize(proto, preset="MATMUL_NBITS", strict=each) for each in (False, True))
    types = [node.op_type for node in made.proto.graph.node]
    assert types == ["Gather", "DequantizeLinear", "MatMulNBits", "MatMulNBits", "Add", "MatMulNBits", "MatMulNBits"]
    assert types[:1] + types[2:] == [node.op_type for node in packed.proto.graph.node]
    table = changed_weights(packed.proto, lambda name, w: _channels(w, 1, "int8") if name == "table" else w)
    (expected,), (got,) = run_exactly(table, {"x": x}), run_exactly(made.proto, {"x": x})
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("code", ["int4", "int8"])
def test_tables_of_float16_models_are_read_in_float16(rng, code):
    proto, x = weight_layers(rng, np.float16), rng.integers(0, 50, 9)
    made = quarkfast.quantize(proto, preset="MATMUL_NBITS", weight_type=code)
    onnx.checker.check_model(made.proto)
    assert made.summary.opset == 19  # the first whose DequantizeLinear has float16 scales
    (expected,), (got,) = run_exactly(proto, {"x": x}), run_exactly(made.proto, {"x": x})
    assert sqnr(expected.astype(np.float32), got.astype(np.float32)) > 12


@pytest.mark.parametrize("preset", ["MATMUL_NBITS", "INT4_WO"])
@pytest.mark.parametrize("opset", [11, 13])
def test_tables_beside_groups_are_written_in_any_operator_set(preset, opset):
    table = np.random.default_rng(2).normal(size=(50, 64)).astype(np.float32)
    text = "g (int64[N] x) => (float[N, 64] y) { e = Gather (table, x)  y = MatMul (e, w) }"
    model = tiny_model(text, {"table": table, "w": np.eye(64, dtype=np.float32)}, opset=opset)
    made = quarkfast.quantize(model, preset=preset)
    assert made.summary.opset == (21 if preset == "INT4_WO" else 13)
    (got,) = run_exactly(made.proto, {"x": np.arange(50)})
    assert sqnr(table, got) > 15


@pytest.mark.parametrize(
    ("preset", "dtype", "stored"),
    [
        ("MATMUL_NBITS", "int4", {"table_quantized", "table_nbits"}),
        ("MATMUL_NBITS", "int8", {"table_quantized", "table_nbits"}),  # no rows in the layout of a product
        ("MATMUL_NBITS", "float16", {"table_float16"}),
        ("INT4_WO", "float16", {"table_float16"}),
        ("INT4_WO", "int4", {"table_quantized", "table_quantized_1"}),  # nor of 4 bits
        ("INT4_WO", "int8", {"table_quantized"}),
        ("INT8_WO", "int4", {"table_quantized", "table_quantized_1"}),
        ("INT8_WO", "int8", {"table_quantized"}),
    ],
)
def test_a_table_that_a_product_reads_too(preset, dtype, stored):
    made = quarkfast.quantize(tied_model(), preset=preset, tensors={"table": {"dtype": dtype}})
    names = [each.name for each in made.proto.graph.initializer if each.name.startswith("table")]
    assert {name for name in names if "_scale" not in name and "_zero_point" not in name} == stored
    x = np.arange(0, 300, 7)
    (expected,), (got,) = run_exactly(tied_model(), {"x": x}), run_exactly(made.proto, {"x": x})
    assert sqnr(expected, got) > 15


def test_one_constant_has_the_form_of_the_first_that_reads_it():
    text = """g (float[N, 64] x) => (float[N, 64] y) {
        [first] a = MatMul (x, w)
        [second] y = MatMul (a, w)
    }"""
    model = tiny_model(text, {"w": np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32)})
    made = quarkfast.quantize(model, preset="INT4_WO", layers=[{"nodes": ["second"], "weight": {"dtype": "int8"}}])
    assert [(left.name, left.reason) for left in made.summary.left_float] == [
        ("second", "its weight 'w' is stored in the form of 'first'")
    ]


def test_weights_of_float16_models_are_no_wider(rng):
    made = quarkfast.quantize(weight_layers(rng, np.float16), preset="INT4_WO", tensors={"w2": {"dtype": "float16"}})
    assert "float16" in next(left.reason for left in made.summary.left_float if left.op_type == "Gemm")


def test_codes_by_outputs_keep_the_forms():
    text = """g (float[N, 64] x) => (float[N, 8] y) {
        a = MatMul (x, v)
        b = Relu (a)
        y = MatMul (b, w)
    }"""
    rng = np.random.default_rng(5)
    arrays = {"v": rng.normal(0, 0.2, (64, 48)), "w": rng.normal(0, 0.2, (48, 8))}
    model = tiny_model(text, {name: array.astype(np.float32) for name, array in arrays.items()})
    mixture = rng.normal(size=(6, 64))
    x, others = ((rng.normal(size=(count, 6)) @ mixture).astype(np.float32) for count in (300, 40))
    for preset in ("INT4_WO", "MATMUL_NBITS"):
        given = {"preset": preset, "calibration_data": x, "tensors": {"v": {"dtype": "int8"}}}
        nearest, chosen = (quarkfast.quantize(model, rounding=each, **given) for each in ("nearest", "gptq"))
        types = [
            {each.name: numpy_helper.to_array(each).dtype.name for each in made.proto.graph.initializer}
            for made in (nearest, chosen)
        ]
        assert types[0] == types[1]
        (expected,), *found = (run_exactly(each, {"x": others}) for each in (model, nearest.proto, chosen.proto))
        assert sqnr(expected, found[1][0]) > sqnr(expected, found[0][0]) + 0.5


def test_an_entry_that_changes_nothing_is_told(rng):
    made = quarkfast.quantize(weight_layers(rng), preset="INT4_WO", tensors={"b2": {"dtype": "int8"}})
    assert any(note.startswith("tensors: expected weights that are stored, got 'b2'") for note in made.summary.notes)
    asked = quarkfast.quantize(weight_layers(rng), preset="INT4_WO", tensors={"w2": {"dtype": "float32"}})
    assert not any(note.startswith("tensors:") for note in asked.summary.notes)


def test_the_scheme_with_its_rules_is_plain_data():
    scheme = scheme_from("INT4_WO", {"layers": [{"op_types": ["Gather"], "weight": {"dtype": "int8"}}]})
    assert Scheme.from_dict(scheme.to_dict()) == scheme


@pytest.mark.parametrize(
    ("preset", "options", "message"),
    [
        (
            "BF16_WO",
            {"tensors": {"w1": {"dtype": "float16"}}},
            "BF16_WO: expected one type for all weights, got layers",
        ),
        ("INT4_WO", {"tensors": {"w1": {"dtype": "int16"}}}, "dtype: expected one of int3, .* in INT4_WO, got int16"),
        ("INT8_WO", {"tensors": {"w1": {"dtype": "mx9"}}}, "dtype: expected one of int3, .* in INT8_WO, got mx9"),
        ("MATMUL_NBITS", {"tensors": {"w1": {"dtype": "int3"}}}, "expected one of int4, .* in MATMUL_NBITS, got int3"),
        (
            "MATMUL_NBITS",
            {"tensors": {"w1": {"granularity": "channel"}}},
            "granularity: expected groups in MATMUL_NBITS, got one scale a channel",
        ),
        (
            "MATMUL_NBITS",
            {"tensors": {"w1": {"group_size": 24}}},
            "group_size: expected a power of two from 16 on in MATMUL_NBITS, got 24",
        ),
        ("INT4_WO", {"tensors": {"w1": {"range": [-1, 1]}}}, "tensors: w1: expected the form of a weight in INT4_WO"),
        ("INT4_WO", {"tensors": {"w1": {"method": "minmse"}}}, "expected weights with float32 scales from their ext"),
        (
            "INT4_WO",
            {"layers": [{"op_types": ["MatMul"], "bias": "float"}]},
            "layers: expected weight alone in INT4_WO",
        ),
    ],
)
def test_forms_that_weights_alone_cannot_have_are_refused(rng, preset, options, message):
    with pytest.raises(ConfigError, match=message):
        quarkfast.quantize(weight_layers(rng), preset=preset, **options)
