"""Layers that may get other types: their sizes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from quarkfast.config.mixed_precision import read_mixed_precision
from quarkfast.quantization.layer_candidates import find_candidates
from quarkfast.transforms.infer_types import infer_types
from support.tiny_models import tiny_model


def only_candidate(text: str, shape: tuple[int, ...]):
    loaded = ir.from_proto(tiny_model(text, {"w": np.zeros(shape, np.float32)}))
    infer_types(loaded)
    names = [node.name for node in loaded.graph]
    (found,) = find_candidates(loaded, names, read_mixed_precision({"weight": {"dtype": "int16"}}))
    return found


@pytest.mark.parametrize(
    ("text", "shape", "operations"),
    [
        # 4 channels of 6 x 6 numbers, each a sum over 3 channels of 3 x 3 numbers
        ("g (float[N,3,8,8] x) => (float[N,4,6,6] y) { y = Conv (x, w) }", (4, 3, 3, 3), 4 * 36 * 27),
        ("g (float[N,4,8,8] x) => (float[N,4,6,6] y) { y = Conv <group = 4> (x, w) }", (4, 1, 3, 3), 4 * 36 * 9),
        # each of 3 x 8 x 8 numbers is spread to 4 channels of 2 x 2
        (
            "g (float[N,3,8,8] x) => (float[N,4,16,16] y) { y = ConvTranspose <strides = [2, 2]> (x, w) }",
            (3, 4, 2, 2),
            3 * 64 * 16,
        ),
        ("g (float[N,16] x) => (float[N,8] y) { y = Gemm (x, w) }", (16, 8), 16 * 8),
        ("g (float[N,16] x) => (float[N,8] y) { y = Gemm <transB = 1> (x, w) }", (8, 16), 16 * 8),
        ("g (float[N,5,16] x) => (float[N,5,8] y) { y = MatMul (x, w) }", (16, 8), 5 * 16 * 8),
    ],
)
def test_multiplications_and_bytes_of_a_layer(text, shape, operations):
    found = only_candidate(text, shape)
    assert (found.operations, found.bytes) == (operations, 4 * int(np.prod(shape)))
