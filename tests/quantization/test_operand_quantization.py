from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.config import PRESETS
from support.processors import run_exact
from support.tiny_models import tiny_model

WIDTH = 32


@pytest.fixture(autouse=True)
def _schemas():
    quarkfast.register_schemas()


def _values(rng, *shape):
    return rng.integers(-(2**9), 2**9, shape).astype(np.float32) / 2**9


def _residual(rng, outputs="y"):
    listed = ", ".join(f"float[N, {WIDTH}] {name}" for name in outputs)
    text = f"""g (float[N, {WIDTH}] x) => ({listed}) {{
        h = MatMul(x, w1)
        r = Relu(h)
        p = MatMul(r, w2)
        y = Add(p, x)
    }}"""
    return tiny_model(text, {"w1": _values(rng, WIDTH, WIDTH), "w2": _values(rng, WIDTH, WIDTH)})


def _run(proto, feed):
    return run_exact(proto, feed)


def _rounded(proto):
    """Names of the tensors that are rounded, in the order of the graph."""
    rounded = [node.input[0] for node in proto.graph.node if node.domain == "com.amd.quark"]
    return [name.removesuffix("_quantized") for name in rounded]


@pytest.mark.parametrize("preset", ["MX6", "MX4", "MXFP8E4M3", "MXFP6E2M3", "MXFP4E2M1"])
def test_operands_of_products_are_rounded_and_sums_read_what_was_computed(rng, preset):
    x = _values(rng, 4, WIDTH)
    model = _residual(rng)
    quantized = quarkfast.quantize(model, preset=preset, equalize=False).proto
    assert set(_rounded(quantized)) == {"w1", "w2", "x", "r"}

    # The sum adds x itself: without it, the rest is the same graph, which reads the rounded x alone.
    [y] = _run(quantized, {"x": x})
    final = next(node for node in quantized.graph.node if node.op_type == "Add")
    quantized.graph.node.remove(final)
    quantized.graph.output[0].name = "p"
    [p] = _run(quantized, {"x": x})
    np.testing.assert_array_equal(y, p + x)


def test_an_operand_that_is_a_graph_output_is_handed_out_as_it_was_computed(rng):
    x = _values(rng, 4, WIDTH)
    model = _residual(rng, outputs="yhr")
    quantized = quarkfast.quantize(model, preset="MX6").proto
    assert [each.name for each in quantized.graph.output] == ["y", "h", "r"]
    onnx.checker.check_model(quantized, full_check=True)
    _, h, r = _run(quantized, {"x": x})
    np.testing.assert_array_equal(r, np.maximum(h, 0))


def test_every_rounding_is_read(rng):
    """By a product along another axis and by operators that compute in float."""
    text = f"""g (float[N, {WIDTH}, {WIDTH}] x) => (float[N, {WIDTH}, {WIDTH}] y) {{
        s = Softmax(x)
        a = MatMul(x, w)
        b = MatMul(a, x)
        c = Mul(b, x)
        y = Add(c, s)
    }}"""
    quantized = quarkfast.quantize(tiny_model(text, {"w": _values(rng, WIDTH, WIDTH)}), preset="MX6").proto
    assert sorted(_rounded(quantized)) == ["a", "w", "x", "x"]
    read = {name for node in quantized.graph.node for name in node.input}
    assert all(node.output[0] in read for node in quantized.graph.node if node.domain == "com.amd.quark")


def test_what_a_layer_computes_is_rounded_where_the_scheme_gives_it_a_type(rng):
    layers = [{"op_types": ["MatMul"], "output": {"dtype": "mx9"}}]
    quantized = quarkfast.quantize(_residual(rng), preset="MX6", layers=layers).proto
    assert {"h", "p"} <= set(_rounded(quantized))
    final = next(node for node in quantized.graph.node if node.op_type == "Add")
    assert list(final.input) == ["p_DequantizeLinear_Output", "x"]


def test_a_table_that_gather_reads_is_stored_rounded(rng):
    text = f"""g (int64[N] i, float[9, {WIDTH}] t) => (float[N, {WIDTH}] y, float[N, {WIDTH}] z) {{
        y = Gather(e, i)
        z = Gather(t, i)
    }}"""
    quantized = quarkfast.quantize(tiny_model(text, {"e": _values(rng, 9, WIDTH)}), preset="MX6").proto
    assert _rounded(quantized) == ["e"]


def test_the_table_of_every_tensor_is_still_there(rng):
    """What AMD Quark does with MX formats: sums, too, read rounded values."""
    scheme = replace(PRESETS["MX6"], target="ryzenai-bf16", bias="weight")
    assert {"x", "r", "h", "p"} & set(_rounded(quarkfast.quantize(_residual(rng), preset=scheme).proto)) == {
        "x",
        "r",
        "p",
    }
