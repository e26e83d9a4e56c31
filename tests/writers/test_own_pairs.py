"""What readers of a tensor share: `shares`, and Quark's DedicatedQDQPair and DedicateDQNode."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.config.quark import get_default_config, scheme_of
from support.tiny_models import run_exactly, samples, tiny_model

# An input, a weight and an output that several nodes read.
TEXT = """g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y, float[N, 3, 8, 8] z) {
    a = Conv(x, w)
    b = Conv(a, w)
    y = Add(b, x)
    z = Mul(y, x)
}"""


def quantized(**options):
    weight = np.random.default_rng(3).normal(0, 0.3, (3, 3, 1, 1)).astype(np.float32)
    options = {"calibration_data": samples(), **options}
    return quarkfast.quantize(tiny_model(TEXT, {"w": weight}), **options).proto


def readers_of(proto):
    """How many nodes read each result of a node."""
    return Counter(name for node in proto.graph.node for name in node.input)


@pytest.mark.parametrize("preset", ["A8W8", "U8S8", "XINT8", "BF16", "A16W8"])
@pytest.mark.parametrize("shares", ["codes", "nothing"])
def test_values_are_those_of_shared_pairs(preset, shares):
    options = {"preset": preset, "bf16_qdq_to_cast": True} if preset == "BF16" else {"preset": preset}
    own, shared = quantized(shares=shares, **options), quantized(**options)
    onnx.checker.check_model(own, full_check=True)
    for one, other in zip(run_exactly(own, {"x": samples()}), run_exactly(shared, {"x": samples()}), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("shares", "codes", "pairs"), [("pair", 4, 5), ("codes", 4, 9), ("nothing", 7, 9)])
def test_every_reader_has_what_is_its_own(shares, codes, pairs):
    proto = quantized(preset="A8W8", shares=shares)
    found = Counter(node.op_type for node in proto.graph.node)
    # Quantized are x (3 readers), a (1), b (1), y (1 and the output) and z (the output); decoded is w (2) as well.
    assert found["QuantizeLinear"] == codes + 1
    assert found["DequantizeLinear"] == pairs + 1
    if shares != "pair":
        read = readers_of(proto)
        decoded = [node.output[0] for node in proto.graph.node if node.op_type == "DequantizeLinear"]
        assert max(read[name] for name in decoded) == 1


def test_weights_in_float_have_pairs_of_their_own():
    proto = quantized(preset="A8W8", shares="codes", keep_float_weights=True)
    assert sum("w_quantized" in node.input for node in proto.graph.node) == 2


def test_the_keys_of_quark_mean_the_option():
    for keys, shares in (
        ({}, "pair"),
        ({"DedicateDQNode": True}, "codes"),
        ({"DedicatedQDQPair": True, "DedicateDQNode": True}, "nothing"),
    ):
        config = get_default_config("A8W8")
        config.extra_options |= keys
        assert scheme_of(config).shares == shares


def test_the_option_survives_plain_data():
    scheme = quarkfast.plan(tiny_model(TEXT, {"w": np.ones((3, 3, 1, 1), np.float32)}), preset="A8W8", shares="codes")
    plain = json.loads(json.dumps(scheme.scheme.to_dict()))
    assert quarkfast.Scheme.from_dict(plain).shares == "codes"
    assert "shares" not in quarkfast.PRESETS["A8W8"].to_dict()


@pytest.mark.parametrize("preset", ["DYNAMIC", "MXINT8", "INT8_WO"])
def test_presets_without_pairs_refuse_the_option(preset):
    with pytest.raises(quarkfast.ConfigError, match=f"shares: expected pair for {preset}, which writes none, got 'cod"):
        quantized(preset=preset, shares="codes", calibration_data=None)
