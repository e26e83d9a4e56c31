"""Where the bytes of a model are, counted from its file."""

from __future__ import annotations

import numpy as np
import pytest

import quarkfast
from quarkfast.graph.byte_counts import count_bytes
from support.tiny_models import conv_relu_model, samples, tiny_model


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "BF16", "DYNAMIC"])
def test_all_bytes_are_somewhere(preset):
    result = quarkfast.quantize(conv_relu_model(), preset=preset, calibration_data=samples())
    found = count_bytes(result.proto, result.summary.bytes_after)
    assert sum(found.values()) == result.summary.bytes_after == len(result.model_bytes)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_codes_biases_and_scales_are_told_apart():
    result = quarkfast.quantize(conv_relu_model(), calibration_data=samples(), bias_correction=False, strict=True)
    found = count_bytes(result.proto, result.summary.bytes_after)
    assert found["int8 codes"] == 81 + 9
    assert found["int32 codes"] == 3 * 4
    assert found["scales and zero points"] > 0


def test_four_bits_are_half_a_byte_and_packed_codes_are_codes():
    weight = np.ones((256, 64), np.float32)
    model = tiny_model("g (float[N, 256] x) => (float[A, B] y) { y = MatMul (x, w) }", {"w": weight})
    for preset, name in (("INT4_WO", "int4 codes"), ("MATMUL_NBITS", "packed codes")):
        result = quarkfast.quantize(model, preset=preset)
        assert count_bytes(result.proto, result.summary.bytes_after)[name] == 256 * 64 // 2


def test_constants_of_bodies_count():
    text = """g (bool c, float[4] x) => (float[4] y) {
        y = If (c) <
            then_branch = t () => (float[4] a) {
                k = Constant <value = float[4] {1.0, 2.0, 3.0, 4.0}> ()
                a = Add (x, k)
            },
            else_branch = e () => (float[4] b) { b = Identity (x) }>
    }"""
    assert count_bytes(tiny_model(text), 1000)["float32 constants"] == 16
