"""DequantizeLinear as our own operator: the same bits, and other nodes stay as they are."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from quarkfast import ort
from quarkfast.graph.comparisons import use_own_dequantizers
from support.tiny_models import tiny_model

CODES = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16}
PLAIN = "g ({type}[N, 3, 5] x) => (float[N, 3, 5] y) {{ y = DequantizeLinear{attributes} (x, s, z) }}"


def model(name, scale, zero_point, attributes="", opset=21):
    return tiny_model(PLAIN.format(type=name, attributes=attributes), {"s": scale, "z": zero_point}, opset=opset)


def run(proto, x):
    return ort.inference_session(proto.SerializeToString(), ort.session_options(optimize=False)).run(None, {"x": x})[0]


@pytest.mark.parametrize(("attributes", "size"), [("", None), ("", 1), ("", 3), ("<axis = -1>", 5)], ids=str)
@pytest.mark.parametrize("name", CODES)
def test_all_codes_give_the_bits_of_onnxruntime(isa, rng, name, attributes, size):
    limits = np.iinfo(CODES[name])
    x = np.resize(np.arange(limits.min, limits.max + 1), (4400, 3, 5)).astype(CODES[name])
    shape = () if size is None else (size,)
    scale = np.float32(2.0) ** rng.uniform(-140, 100, shape).astype(np.float32)
    zero_point = np.asarray(rng.integers(limits.min, limits.max, shape, endpoint=True), CODES[name])
    proto = model(name, np.asarray(scale, np.float32), zero_point, attributes)
    own = ir.from_proto(proto)
    assert use_own_dequantizers(own) == 1
    assert [node.op_type for node in own.graph] == ["ExtendedDequantizeLinear"]
    np.testing.assert_array_equal(run(ir.to_proto(own), x).view(np.int32), run(proto, x).view(np.int32))


@pytest.mark.parametrize(
    ("name", "scale", "attributes"),
    [("int8", -0.5, ""), ("int8", 0.0, ""), ("int8", np.nan, ""), ("int32", 0.5, ""), ("int8", 0.5, "<block_size = 1>"),
     ("int8", 0.5, "<output_dtype = 1>")],
    ids=str,
)  # fmt: skip
def test_what_ours_would_refuse_or_round_otherwise_stays(name, scale, attributes):
    dtype = CODES.get(name, np.int32)
    opset = 23 if "output_dtype" in attributes else 21
    own = ir.from_proto(model(name, np.float32(scale), np.zeros((), dtype), attributes, opset))
    assert use_own_dequantizers(own) == 0
    assert [node.op_type for node in own.graph] == ["DequantizeLinear"]
