"""What the summary says about releases of onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from support.tiny_models import conv_relu_model, samples, tiny_model

PRODUCTS = """g (float[N, 8] x) => (float[N, 4] y) {
    [first] a = MatMul(x, v)
    [second] b = Gemm(a, w)
    [third] y = Gemm<transB = 1>(b, u)
}"""


def _notes(preset, word, model=None, **options):
    rng = np.random.default_rng(3)
    arrays = {"v": (8, 8), "w": (8, 4), "u": (4, 4)}
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in arrays.items()}
    x = samples(8, (8,)) if model is None else samples()
    data = {} if preset.endswith(("_WO", "_NBITS")) else {"calibration_data": x}
    result = quarkfast.quantize(model or tiny_model(PRODUCTS, arrays), preset=preset, **data, **options)
    return [note for note in result.summary.notes if word in note]


@pytest.mark.parametrize(
    ("preset", "options", "release"),
    [
        ("INT8_WO", {}, "1.25"), ("A16W8", {}, "1.32"), ("A16W8", {"per_channel": True}, "1.32"),
        ("BF16", {"weight_type": "int8"}, "1.25"), ("A8W8", {"activation_type": "int32"}, "1.25"),
    ],
)  # fmt: skip
def test_products_whose_activations_are_rounded_are_named_with_the_remedy(preset, options, release):
    (note,) = _notes(preset, "MatMulNBits", **options)
    assert note.startswith(f"node 'first' and 1 more: onnxruntime from {release} on rounds")
    assert note.endswith("with the session option session.qdq_matmulnbits_accuracy_level at 1 it does not")


def test_products_with_groups_of_4_bits_are_named_too():
    (note,) = _notes("INT4_WO", "MatMulNBits")
    assert note.startswith("node 'first' and 1 more: onnxruntime 1.32 rounds")


@pytest.mark.parametrize(
    ("preset", "options"),
    [("A8W8", {}), ("U8S8", {"per_channel": True}), ("BF16", {}), ("A16W8", {"weight_type": "int16"})],
)
def test_products_of_equally_narrow_codes_or_of_wider_weights_are_not(preset, options):
    assert not _notes(preset, "MatMulNBits", **options)


def test_unsigned_weights_with_a_zero_point_for_each_channel_are_named_with_the_remedy():
    options = {"weight_type": "uint8", "per_channel": True}
    (note,) = _notes("U8S8", "1.27", conv_relu_model(), **options)
    assert note.startswith("node 'conv_0' and 1 more: onnxruntime before 1.27 refuses uint8 weights")
    assert not _notes("U8S8", "1.27", conv_relu_model(), weight_symmetric=True, **options)
    assert not _notes("A16W8", "1.27", conv_relu_model(), **options)


@pytest.mark.parametrize(
    ("preset", "options", "first"), [("INT4_WO", {}, "u"), ("A8W8", {"weight_type": "uint4"}, "v")]
)
def test_codes_of_4_bits_are_named(preset, options, first):
    (note,) = _notes(preset, "1.19", **options)
    assert note.startswith(f"node '{first}_DequantizeLinear' and 2 more: onnxruntime before 1.19 has no types of")


def test_products_of_8_bits_are_named_with_what_runs():
    (note,) = _notes("MATMUL_NBITS", "1.23", weight_type="int8")
    assert note.startswith("node 'first' and 2 more: onnxruntime before 1.23 has no MatMulNBits of 8 bits")
    assert not _notes("MATMUL_NBITS", "1.23")


@pytest.mark.parametrize("preset", ["MATMUL_NBITS", "INT8_WO", "A8W8"])
def test_other_codes_are_not(preset):
    assert not _notes(preset, "1.19")
