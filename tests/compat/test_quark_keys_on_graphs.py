"""Keys of Quark's whose values make no difference, each on a graph where they could."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from quarkfast.compat.quark.onnx import ModelQuantizer
from quarkfast.config.quark import Config, get_default_config
from quarkfast.config.quark.keys import KEYS, holds
from support.tiny_models import conv_relu_model, run_as_written, run_exactly, samples, tiny_model

MOVED = """g (float[N, 3, 8, 8] x) => (float[N, 4, 4, 4, 3] y) {
    p = Pad(x, pads)
    s = Slice(p, starts, ends)
    t = Transpose<perm = [0, 2, 3, 1]>(s)
    r = Reshape(t, shape)
    y = Relu(r)
}"""
# Normalizations and Gelu as exporters write them out.
NORMALIZED = """g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) {
    m = ReduceMean<keepdims = 1>(x, last)
    c = Sub(x, m)
    q = Mul(c, c)
    v = ReduceMean<keepdims = 1>(q, last)
    e = Add(v, epsilon)
    r = Sqrt(e)
    n = Div(c, r)
    s = Mul(n, gain)
    l = Add(s, gain)
    im = ReduceMean<keepdims = 1>(l, plane)
    ic = Sub(l, im)
    iq = Mul(ic, ic)
    iv = ReduceMean<keepdims = 1>(iq, plane)
    ie = Add(iv, epsilon)
    ir = Sqrt(ie)
    i = Div(ic, ir)
    norm = ReduceL2<keepdims = 1>(i, last)
    k = Div(i, norm)
    g = Div(k, root)
    f = Erf(g)
    o = Add(f, one)
    h = Mul(k, o)
    z = Mul(h, half)
    y = Conv(z, w)
}"""
HALF = """g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) {
    h = Cast<to = 10>(x)
    r = Relu(h)
    y = Cast<to = 1>(r)
}"""
NUMBERS = {
    "last": np.array([-1]),
    "plane": np.array([2, 3]),
    "epsilon": np.float32([1e-5]),
    "gain": np.linspace(0.5, 2, 8, dtype=np.float32),
    "root": np.float32([2**0.5]),
    "one": np.float32([1]),
    "half": np.float32([0.5]),
    "w": np.ones((3, 3, 1, 1), np.float32),
}
SHAPES = {
    "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    "starts": np.array([0, 0, 1, 1]),
    "ends": np.array([99, 99, 9, 9]),
    "shape": np.array([0, 4, 4, 4, 3]),
}


def quantized(proto, preset, **options):
    config = get_default_config(preset)
    config.extra_options |= options
    return ModelQuantizer(Config(config)).quantize_model(proto, None, [{"x": each[None]} for each in samples()])


def arrays_of(proto):
    return {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}


@pytest.mark.parametrize(
    ("key", "preset", "values"),
    [
        ("AdjustWeightScaleForInt32Bias", "S8S8_AAWS", (True, False)),
        ("AlignReshape", "A8W8", (True, False)),
        ("AlignTranspose", "A8W8", (True, False)),
        ("AlignPad", "A8W8", (True, False)),
        ("AlignSlice", "A8W8", (True, False)),
        ("CalibOptimizeMem", "S8S8_AAWS", (True, False)),
        ("CalibWorkerNum", "S8S8_AAWS", (1, 7)),
        ("CryptoMode", "XINT8", (True, False)),
        ("EncryptionAlgorithm", "XINT8", ("AES-256", None)),
        ("FoldRelu", "U8S8_AAWS", (True, False)),
        ("FuseGelu", "A8W8", (True, False)),
        ("FuseInstanceNorm", "A8W8", (True, False)),
        ("FuseL2Norm", "A8W8", (True, False)),
        ("FuseLayerNorm", "A8W8", (True, False)),
        ("IgnoreWarnings", "A8W8", (True, False)),
        ("PrintSummary", "A8W8", (True, False)),
        ("QuantizeFP16", "A8W8", (True, False)),
        ("RemoveFusedQDQ", "BFP16", (True, False)),
        ("TmpDir", "A8W8", (".", None)),
    ],
)
def test_every_value_gives_the_same_model(key, preset, values, capsys):
    written = {"Alig": (MOVED, SHAPES), "Fuse": (NORMALIZED, NUMBERS), "Quan": (HALF, {})}.get(key[:4])
    proto = conv_relu_model() if written is None else tiny_model(*written, opset=20)
    found = [quantized(proto, preset, **{key: value}).SerializeToString() for value in values]
    assert found[0] == found[1]
    assert capsys.readouterr() == ("", "")


def test_every_key_of_that_kind_is_tried():
    anyway = {key for key, row in KEYS.items() if holds(row) == "so anyway"}
    (mark,) = test_every_value_gives_the_same_model.pytestmark
    # RMatrixDim is tried on a transformer: tests/algorithms/test_hadamard_rotation.py.
    assert anyway | {"AlignPad", "AlignSlice"} == {row[0] for row in mark.args[1]} | {"RMatrixDim"}


def test_what_only_moves_values_has_one_scale():
    proto = quantized(tiny_model(MOVED, SHAPES), "A8W8")
    scales = arrays_of(proto)
    pairs = {node.input[0]: node.input[1] for node in proto.graph.node if node.op_type == "QuantizeLinear"}
    assert {"p", "s", "t", "r"} <= set(pairs)
    assert len({float(scales[pairs[name]]) for name in ("x", "p", "s", "t", "r")}) == 1


def test_a_relu_behind_an_asymmetric_layer_changes_no_code():
    proto = quantized(conv_relu_model(), "U8S8_AAWS")
    without = onnx.ModelProto()
    without.CopyFrom(proto)
    (relu,) = [node for node in without.graph.node if node.op_type == "Relu"]
    for node in without.graph.node:
        node.input[:] = [relu.input[0] if name == relu.output[0] else name for name in node.input]
    without.graph.node.remove(relu)
    x = samples()
    np.testing.assert_array_equal(run_exactly(without, {"x": x})[0], run_as_written(proto.SerializeToString(), x))


def test_a_bias_that_is_too_large_raises_the_scale_of_its_weight():
    small, large = np.full((3, 3, 3, 3), 1e-6, np.float32), np.full(3, 1e6, np.float32)
    codes = arrays_of(quantized(conv_relu_model(w1=small, b1=large), "S8S8_AAWS"))
    assert np.abs(codes["b1_quantized"].astype(np.int64)).max() <= 2**30


def test_no_block_node_stands_between_a_layer_and_its_relu():
    proto = quantized(conv_relu_model(), "BFP16")
    (relu,) = [node for node in proto.graph.node if node.op_type == "Relu"]
    (producer,) = [node for node in proto.graph.node if relu.input[0] in node.output]
    assert producer.op_type == "Conv"


def test_functions_in_several_operators_stay_so():
    proto = quantized(tiny_model(NORMALIZED, NUMBERS, opset=20), "A8W8")
    found = {node.op_type for node in proto.graph.node}
    assert {"Sqrt", "Erf", "ReduceL2"} <= found
    assert not found & {"LayerNormalization", "InstanceNormalization", "Gelu", "LpNormalization"}
