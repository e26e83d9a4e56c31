"""Weights alone over random models: codes and scales of tensors and of groups, and what the rest computes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quarkfast
from quarkfast.config.quark import Config, get_default_config
from quarkfast.config.quark.enums import QuantGranularity
from quarkfast.formats.scalar import qtype
from quarkfast.reference import linear
from support.tiny_models import run_exactly, tiny_model

Array = np.ndarray[Any, Any]


def scale_of(low: float, high: float, code: str, *, symmetric: bool) -> tuple[float, int]:
    """Returns the scale and the zero point of weights from `low` to `high`, as docs/weights.md says; 4 bits mirror."""
    row = qtype(code)
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    qmin, qmax, sign = int(row.qmin), int(row.qmax), 1
    if symmetric:
        middle = (qmin + qmax + 1) // 2
        reaching = [max(-a / (middle - qmin + 0.5), b / (qmax - middle + 0.5)) for a, b in ((low, high), (-high, -low))]
        if row.stored_bits == 4 and reaching[1] < reaching[0]:
            reaching, sign = reaching[::-1], -1
        return sign * float(np.float32(reaching[0] or 1)), middle
    scale = float(np.float32((high - low) / (qmax - qmin) or 1))
    return scale, int(np.rint(qmin - low / scale)) if high > low else (qmin + qmax + 1) // 2


def coded(values: Array, code: str, *, symmetric: bool) -> tuple[Array, float, int, Array]:
    """Returns codes, scale, zero point, and what they stand for, of weights that share a scale."""
    scale, zero = scale_of(values.min(), values.max(), code, symmetric=symmetric)
    signed = values * np.sign(np.float32(scale))
    codes = linear.quantize_linear(signed, np.float32(abs(scale)), np.array(zero), code).astype(np.int64)
    return codes, scale, zero, linear.dequantize_linear(codes, np.float32(scale), np.array(zero))


def same_bits(result: onnx.ModelProto, proto: onnx.ModelProto, decoded: dict[str, Array], x: Array) -> None:
    """Compares with the float model that is given other weights as inputs: onnxruntime packs constants beforehand."""
    fed = onnx.ModelProto()
    fed.CopyFrom(proto)
    fed.opset_import[0].version, fed.ir_version = result.opset_import[0].version, result.ir_version
    for tensor in [each for each in fed.graph.initializer if each.name in decoded]:
        fed.graph.initializer.remove(tensor)
        fed.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    (expected,), (found,) = run_exactly(fed, {"x": x, **decoded}), run_exactly(result, {"x": x})
    assert found.tobytes() == expected.tobytes()


# Weights alone, by Quark's key

# Preset -> what its weights become.
STORED = {
    "A8W8": lambda w: coded(w, "int8", symmetric=True)[3],
    "A16W8": lambda w: coded(w, "int8", symmetric=True)[3],
    "U8U8_AAWA": lambda w: coded(w, "uint8", symmetric=False)[3],
    "BF16": lambda w: w if w.size < 256 else w.astype(ml_dtypes.bfloat16).astype(np.float32),
    "FP16": lambda w: w if w.size < 256 else w.astype(np.float16).astype(np.float32),
}
LINES = (
    "{1} = Conv <pads = [1, 1, 1, 1]> ({0}, w, b)",
    "{1} = Conv <pads = [1, 1, 1, 1], group = {2}> ({0}, d, b)",
    "{1} = Conv ({0}, v)",
    "{1} = ConvTranspose <pads = [1, 1, 1, 1]> ({0}, u, b)",
    "{1} = MatMul ({0}, s)",
    "{1} = Relu ({0})",
    "{1} = Mul ({0}, m)",
    "{1} = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> ({0})",
    "{1} = Softmax <axis = 1> ({0})",
)
CHAINS = st.lists(st.sampled_from(LINES), min_size=1, max_size=6).filter(lambda lines: {*lines} & {*LINES[:5]})
WEIGHTS = ("w", "d", "v", "u", "s")


def chain(lines: list[str], channels: int, size: int, seed: int) -> tuple[onnx.ModelProto, Array]:
    """Returns a model whose layers may share weights, and an input."""
    rng = np.random.default_rng(seed)
    shapes = {
        "w": (channels, channels, 3, 3), "d": (channels, 1, 3, 3), "v": (channels, channels, 1, 1),
        "u": (channels, channels, 3, 3), "s": (size, size), "b": (channels,), "m": (channels, 1, 1),
    }  # fmt: skip
    spreads = {name: 10.0 ** rng.uniform(-3, 1) for name in shapes}
    arrays = {name: rng.normal(0.1 * spreads[name], spreads[name], shape) for name, shape in shapes.items()}
    body, now = "", "x"
    for index, line in enumerate(lines):
        new = "y" if index == len(lines) - 1 else f"t{index}"
        body, now = f"{body} {line.format(now, new, channels)}", new
    used = {name: a.astype(np.float32) for name, a in arrays.items() if f", {name})" in body or f", {name}," in body}
    dims = f"N, {channels}, {size}, {size}"
    proto = tiny_model(f"g (float[{dims}] x) => (float[{dims}] y) {{ {body} }}", used)
    return proto, rng.normal(size=(2, channels, size, size)).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(CHAINS, st.integers(1, 9), st.integers(3, 8), st.integers(0, 99), st.sampled_from(sorted(STORED)))
@pytest.mark.filterwarnings("ignore:quantize. the model has no weight")
def test_weights_alone_change_nothing_but_weights(lines, channels, size, seed, preset):
    proto, x = chain(lines, channels, size, seed)
    config = get_default_config(preset)
    config.extra_options["WeightsOnly"] = True
    found = quarkfast.ModelQuantizer(Config(config)).quantize_model(proto, None, None)
    onnx.checker.check_model(found)
    constants = {each.name for each in found.graph.initializer}
    turned = [node for node in found.graph.node if node.op_type in ("DequantizeLinear", "Cast")]
    assert all(set(node.input) <= constants for node in turned)
    assert [node.op_type for node in found.graph.node if node not in turned] == [
        node.op_type for node in proto.graph.node
    ]
    weights = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer if each.name in WEIGHTS}
    stored = [name for name in weights if preset not in ("BF16", "FP16") or weights[name].size >= 256]
    assert len(turned) == len(stored)
    assert not constants & {*stored}
    same_bits(found, proto, {name: STORED[preset](weights[name]) for name in stored}, x)


# Groups

PRODUCTS = {
    "matrix": ("MatMul (x, w)", lambda k, n: (k, n), 0),
    "stack": ("MatMul (x, w)", lambda k, n: (2, k, n), 1),
    "gemm": ("Gemm (x, w)", lambda k, n: (k, n), 0),
    "turned": ("Gemm <transB = 1> (x, w)", lambda k, n: (n, k), 1),
}


def check_groups(proto: onnx.ModelProto, w: Array, axis: int, code: str, size: int, *, symmetric: bool) -> Array:
    """Compares what is stored with the reference, group by group; returns what it stands for."""
    found = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}
    (node,) = [node for node in proto.graph.node if node.op_type == "DequantizeLinear"]
    attributes = {each.name: each.i for each in node.attribute}
    assert (attributes.get("axis", 1), attributes["block_size"]) == (axis, size)
    codes, scales = (np.moveaxis(found[name], axis, -1) for name in ("w_quantized", "w_scale"))
    zeros = np.moveaxis(found["w_zero_point"], axis, -1) if "w_zero_point" in found else np.zeros_like(scales)
    rows, values = np.moveaxis(w, axis, -1), np.empty_like(np.moveaxis(w, axis, -1))
    length = rows.shape[-1]
    assert scales.shape == zeros.shape == (*rows.shape[:-1], -(-length // size))
    for place in np.ndindex(scales.shape):
        part = (*place[:-1], slice(place[-1] * size, (place[-1] + 1) * size))
        wanted, scale, zero, values[part] = coded(rows[part], code, symmetric=symmetric)
        assert (float(scales[place]), int(zeros[place])) == (scale, zero)
        np.testing.assert_array_equal(codes[part].astype(np.int64), wanted)
    return np.moveaxis(values, -1, axis)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(PRODUCTS)),
    st.integers(2, 150),
    st.integers(1, 5),
    st.sampled_from(["int4", "int3", "int8"]),
    st.sampled_from([16, 32, 64, 128]),
    st.booleans(),
    st.integers(0, 99),
)
def test_each_group_has_the_codes_and_the_scale_of_the_reference(kind, k, n, code, size, symmetric, seed):
    node, shape, axis = PRODUCTS[kind]
    rng = np.random.default_rng(seed)
    w = (rng.normal(rng.uniform(-1, 1), 1, shape(k, n)) * 10.0 ** rng.integers(-3, 3)).astype(np.float32)
    w *= rng.random(w.shape) < rng.choice([0.05, 0.5, 1])  # whole groups of zeros are among them
    rank = "2, 3" if kind == "stack" else "3"
    proto = tiny_model(f"g (float[{rank}, {k}] x) => (float[{rank}, {n}] y) {{ y = {node} }}", {"w": w}, opset=21)
    options = {"weight_type": code, "group_size": size, "weight_symmetric": symmetric}
    result = quarkfast.quantize(proto, preset="INT4_WO", **options).proto
    decoded = check_groups(result, w, axis, code, size, symmetric=symmetric)
    x = rng.normal(size=(2, 3, k) if kind == "stack" else (3, k)).astype(np.float32)
    same_bits(result, proto, {"w": decoded}, x)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(PRODUCTS)), st.integers(2, 600), st.integers(1, 3), st.booleans(), st.integers(0, 99))
def test_quarks_granularity_means_groups_of_128(kind, k, n, unsigned, seed):
    node, shape, axis = PRODUCTS[kind]
    rng = np.random.default_rng(seed)
    w = rng.normal(0.1, 0.5, shape(k, n)).astype(np.float32)
    weight = (quarkfast.UInt8Spec if unsigned else quarkfast.Int8Spec)(quant_granularity=QuantGranularity.Group)
    config = quarkfast.QConfig(quarkfast.QLayerConfig(quarkfast.Int8Spec(), weight=weight), WeightsOnly=True)
    rank = "2, 3" if kind == "stack" else "3"
    proto = tiny_model(f"g (float[{rank}, {k}] x) => (float[{rank}, {n}] y) {{ y = {node} }}", {"w": w}, opset=21)
    result = quarkfast.ModelQuantizer(config).quantize_model(proto, None, None)
    check_groups(result, w, axis, "uint8" if unsigned else "int8", 128, symmetric=not unsigned)
