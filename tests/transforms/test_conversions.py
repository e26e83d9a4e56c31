"""Operators that become others in front of quantization: the same numbers, the same names, and nothing else touched."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quarkfast
from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare
from quarkfast.targets import CONVERSIONS
from quarkfast.transforms.convert_operators import (
    LARGEST_WINDOW,
    convert_batch_norm,
    convert_reduce_mean,
    convert_split,
    split_large_pools,
)
from quarkfast.transforms.fix_shapes import fix_shapes
from quarkfast.transforms.infer_types import infer_types
from support.tiny_models import operators_of, run_exactly, tiny_model

# float32 rounds to half of this; a mean of n numbers in any order errs by less than n of it, a product and sum by 3.
EPSILON = 2.0**-23


def converted(proto: onnx.ModelProto, transform) -> tuple[ir.Model, onnx.ModelProto]:
    """Returns what `transform` makes of a model, which must be a model that a second time changes nothing of."""
    model = load_model(proto)
    infer_types(model)
    changed = transform(model)
    result = ir.serde.serialize_model(model)
    assert changed == (operators_of(model) != [node.op_type for node in proto.graph.node])
    assert not transform(model)
    assert ir.serde.serialize_model(model) == result
    onnx.checker.check_model(result)
    for ours, theirs in ((result.graph.input, proto.graph.input), (result.graph.output, proto.graph.output)):
        assert [each.name for each in ours] == [each.name for each in theirs]
    return model, result


def values_of(proto: onnx.ModelProto, shape) -> list[np.ndarray]:
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    return run_exactly(proto, {"x": x})


def normalization(shape, attributes: str, seed: int = 5) -> onnx.ModelProto:
    rng, count = np.random.default_rng(seed), shape[1]
    arrays = {name: rng.normal(size=count).astype(np.float32) for name in ("gamma", "beta", "mean")}
    arrays["var"] = (rng.normal(size=count) ** 2 * 10.0 ** rng.integers(-8, 3, count)).astype(np.float32)
    sizes = ", ".join(map(str, shape))
    text = f"g (float[{sizes}] x) => (float y) {{ y = BatchNormalization {attributes} (x, gamma, beta, mean, var) }}"
    return tiny_model(text, arrays)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=3, max_size=5),
    st.sampled_from(["", "<epsilon = 0.001>", "<momentum = 0.5>"]),
    st.integers(0, 9),
)
def test_a_normalization_is_a_depthwise_convolution(shape, attributes, seed):
    proto = normalization(shape, attributes, seed)
    model, result = converted(proto, convert_batch_norm)
    assert operators_of(model) == ["Conv"]
    assert model.graph[0].name == proto.graph.node[0].name
    arrays = {each.name: onnx.numpy_helper.to_array(each).astype(np.float64) for each in proto.graph.initializer}
    epsilon = next((each.f for each in proto.graph.node[0].attribute if each.name == "epsilon"), 1e-5)
    factor = arrays["gamma"] / np.sqrt(arrays["var"] + epsilon)
    (before,), (after,) = values_of(proto, shape), values_of(result, shape)
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32).astype(np.float64)
    column = (-1, *[1] * (len(shape) - 2))
    size = np.abs(x * factor.reshape(column)) + np.abs((arrays["mean"] * factor).reshape(column))
    size += np.abs(arrays["beta"].reshape(column))
    assert (np.abs(before.astype(np.float64) - after) <= 8 * EPSILON * size).all()


def _train(proto: onnx.ModelProto) -> None:
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("training_mode", 1))
    proto.graph.node[0].output.extend(["new_mean", "new_var"])


@pytest.mark.parametrize(
    "change",
    [
        _train,
        lambda proto: proto.graph.input.append(onnx.helper.make_tensor_value_info("mean", 1, [3])),
        lambda proto: proto.graph.input[0].type.tensor_type.ClearField("shape"),
    ],
    ids=["training", "statistics that are an input", "open rank"],
)
def test_a_normalization_that_is_none_by_constants_stays(change):
    proto = normalization((2, 3, 4, 4), "")
    change(proto)
    model = load_model(proto)
    assert not convert_batch_norm(model)
    assert operators_of(model) == ["BatchNormalization"]


def test_a_matrix_is_not_convolved():
    model, _ = converted(normalization((2, 3), ""), convert_batch_norm)
    assert operators_of(model) == ["BatchNormalization"]


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(*[st.integers(1, 6)] * 4),
    st.permutations([2, 3]),
    st.tuples(st.booleans(), st.booleans()),
    st.booleans(),
)
def test_a_mean_over_the_plane_is_a_pool(shape, axes, negative, newer):
    axes = [axis - 4 if less else axis for axis, less in zip(axes, negative, strict=True)]
    sizes = ", ".join(map(str, shape))
    node = "ReduceMean (x, axes)" if newer else f"ReduceMean <axes = {axes}> (x)"
    arrays = {"axes": np.array(axes, np.int64)} if newer else {}
    proto = tiny_model(f"g (float[{sizes}] x) => (float y) {{ y = {node} }}", arrays, opset=18 if newer else 13)
    model, result = converted(proto, convert_reduce_mean)
    assert operators_of(model) == ["GlobalAveragePool"]
    assert not model.graph.initializers
    (before,), (after,) = values_of(proto, shape), values_of(result, shape)
    count = shape[2] * shape[3]
    assert before.shape == after.shape
    x = np.abs(np.random.default_rng(3).normal(size=shape)).mean(axis=(2, 3), keepdims=True)
    assert (np.abs(before - after) <= 2 * count * EPSILON * x).all()


@pytest.mark.parametrize(
    ("sizes", "node"),
    [
        ("2, 3, 4, 4", "ReduceMean <axes = [2, 3], keepdims = 0> (x)"),
        ("2, 3, 4, 4", "ReduceMean <axes = [1, 2]> (x)"),
        ("2, 3, 4, 4", "ReduceMean <axes = [3]> (x)"),
        ("2, 3, 4, 4", "ReduceMean (x)"),
        ("2, 3, 4", "ReduceMean <axes = [1, 2]> (x)"),
        ("2, 3, 4, 4, 4", "ReduceMean <axes = [2, 3]> (x)"),
    ],
)
def test_another_mean_stays(sizes, node):
    model, _ = converted(
        tiny_model(f"g (float[{sizes}] x) => (float y) {{ y = {node} }}", opset=13), convert_reduce_mean
    )
    assert operators_of(model) == ["ReduceMean"]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60))
def test_a_pool_over_many_places_is_two(height, width):
    proto = tiny_model(f"g (float[2, 3, {height}, {width}] x) => (float y) {{ y = GlobalAveragePool (x) }}")
    model, result = converted(proto, split_large_pools)
    (before,), (after,) = values_of(proto, (2, 3, height, width)), values_of(result, (2, 3, height, width))
    x = np.abs(np.random.default_rng(3).normal(size=(2, 3, height, width))).mean(axis=(2, 3), keepdims=True)
    assert (np.abs(before - after) <= 2 * height * width * EPSILON * x).all()
    if height * width <= LARGEST_WINDOW:
        assert operators_of(model) == ["GlobalAveragePool"]
    if len(model.graph) == 2:
        first, second = model.graph
        assert first.attributes.get_ints("kernel_shape") == first.attributes.get_ints("strides")
        assert first.name == second.inputs[0].name == "x_Split"
        assert all(
            np.prod(part) <= LARGEST_WINDOW
            for part in (first.attributes.get_ints("kernel_shape"), second.inputs[0].shape[2:])
        )


# Height, width -> the windows that they are cut into; none where the pool stays.
WINDOWS = {(48, 32): (6, 4), (32, 16): None, (27, 19): (3, 1), (521, 1): None, (640, 640): None, (64, 64): (8, 8)}


@pytest.mark.parametrize(("sizes", "window"), WINDOWS.items(), ids=str)
def test_windows_are_those_of_quark(sizes, window):
    proto = tiny_model(f"g (float[N, 3, {sizes[0]}, {sizes[1]}] x) => (float y) {{ y = GlobalAveragePool (x) }}")
    model, _ = converted(proto, split_large_pools)
    found = [tuple(node.attributes.get_ints("kernel_shape")) for node in model.graph if node.op_type == "AveragePool"]
    assert found == ([] if window is None else [window])


def test_a_pool_over_an_open_plane_stays():
    model, _ = converted(
        tiny_model("g (float[N, 3, H, W] x) => (float y) { y = GlobalAveragePool (x) }"), split_large_pools
    )
    assert operators_of(model) == ["GlobalAveragePool"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(-3, 2), st.sampled_from([11, 13]))
def test_a_split_is_a_slice_for_each_part(sizes, axis, opset):
    shape = [2, 2, 2]
    shape[axis] = sum(sizes)
    names = ", ".join(f"y{index}" for index in range(len(sizes)))
    node = f"Split <axis = {axis}> (x, sizes)" if opset == 13 else f"Split <axis = {axis}, split = {sizes}> (x)"
    outputs = ", ".join(f"float y{index}" for index in range(len(sizes)))
    text = f"g (float[{', '.join(map(str, shape))}] x) => ({outputs}) {{ {names} = {node} }}"
    proto = tiny_model(text, {"sizes": np.array(sizes, np.int64)} if opset == 13 else {}, opset=opset)
    model, result = converted(proto, convert_split)
    assert operators_of(model) == ["Slice"] * len(sizes)
    assert [each.tobytes() for each in values_of(proto, shape)] == [each.tobytes() for each in values_of(result, shape)]


@pytest.mark.parametrize(
    ("node", "opset"), [("Split <axis = 1> (x)", 13), ("Split <axis = 1, num_outputs = 2> (x)", 18)], ids=str
)
@pytest.mark.parametrize("size", [4, 6])
def test_parts_of_one_size_follow_from_the_dimension(node, opset, size):
    proto = tiny_model(f"g (float[N, {size}] x) => (float y, float z) {{ y, z = {node} }}", opset=opset)
    model, result = converted(proto, convert_split)
    assert operators_of(model) == ["Slice", "Slice"]
    assert [each.tobytes() for each in values_of(proto, (3, size))] == [
        each.tobytes() for each in values_of(result, (3, size))
    ]
    assert "y_starts_0" in model.graph.initializers


def test_the_last_part_is_smaller_where_the_dimension_does_not_come_out_even():
    proto = tiny_model(
        "g (float[N, 7] x) => (float a, float b, float c) { a, b, c = Split <axis = 1, num_outputs = 3> (x) }", opset=18
    )
    _, result = converted(proto, convert_split)
    assert [each.tobytes() for each in values_of(proto, (3, 7))] == [
        each.tobytes() for each in values_of(result, (3, 7))
    ]


def test_a_split_that_nothing_is_known_of_stays_and_the_next_one_does_not():
    text = """g (float[N, K] x, float[N, 4] w, int64[2] sizes) => (float a, float b, float c, float d) {
        a, b = Split <axis = 1> (x, sizes)
        c, d = Split <axis = 1> (w)
    }"""
    model, _ = converted(tiny_model(text, opset=13), convert_split)
    assert operators_of(model) == ["Split", "Slice", "Slice"]


JOINED = """g (float[N, 4, 48, 32] x) => (float y, float z) {
    r = Relu(x)
    n = BatchNormalization(r, g, b, m, v)
    p = ReduceMean<axes = [2, 3]>(n)
    a, c = Split<axis = 1>(p, sizes)
    y = Mul(a, a)
    z = Mul(c, c)
}"""
NUMBERS = {name: np.full(4, value, np.float32) for name, value in (("g", 2), ("b", 0.5), ("m", 0.25), ("v", 4))}
BEFORE = ["Relu", "BatchNormalization", "ReduceMean", "Split", "Mul", "Mul"]
AFTER = ["Relu", "Conv", "AveragePool", "GlobalAveragePool", "Slice", "Slice", "Mul", "Mul"]
SWITCHES = {
    "batch_norm_to_conv": ("BatchNormalization", "Conv"),
    "reduce_mean_to_pool": ("ReduceMean", "GlobalAveragePool"),
    "split_to_slice": ("Split", "Slice"),
}


def quantized(preset: str, **options) -> list[str]:
    """Returns the operators of the model quantized, without pairs."""
    proto = tiny_model(JOINED, NUMBERS | {"sizes": np.array([1, 3])})
    x = np.random.default_rng(3).normal(size=(2, 4, 48, 32)).astype(np.float32)
    result = quarkfast.quantize(proto, preset=preset, calibration_data=x, **options)
    assert [each.name for each in result.proto.graph.output] == ["y", "z"]
    return [node.op_type for node in result.proto.graph.node if "Linear" not in node.op_type]


@pytest.mark.parametrize("preset", ["XINT8", "A8W8", "A16W8"])
def test_models_for_the_npu_are_converted(preset):
    assert quantized(preset) == AFTER


def test_models_for_processors_are_not():
    assert quantized("U8S8") == BEFORE
    assert quantized("U8S8", constraints=dict.fromkeys(CONVERSIONS, True)) == AFTER


@pytest.mark.parametrize("name", SWITCHES)
def test_each_conversion_may_be_turned_off(name):
    found = quantized("A8W8", constraints={name: False})
    assert (SWITCHES[name][0] in found, SWITCHES[name][1] in found) == (True, False)


def test_an_operator_that_stays_float_by_its_type_is_not_converted():
    assert "BatchNormalization" in quantized("A8W8", exclude_op_types=["BatchNormalization"])
    assert "Split" in quantized("A8W8", op_types=["Split", "Mul"])


def test_a_part_answers_to_the_name_of_the_split():
    proto = tiny_model(JOINED, NUMBERS | {"sizes": np.array([1, 3])})
    (name,) = [node.name for node in proto.graph.node if node.op_type == "Split"]
    x = np.random.default_rng(3).normal(size=(2, 4, 48, 32)).astype(np.float32)
    result = quarkfast.quantize(proto, preset="A8W8", calibration_data=x, exclude=[name])
    assert [each.op_type for each in result.summary.left_float][:2] == ["Slice", "Slice"]


def test_one_calibration_serves_presets_that_convert_and_others():
    proto = tiny_model(JOINED, NUMBERS | {"sizes": np.array([1, 3])})
    x = np.random.default_rng(3).normal(size=(2, 4, 48, 32)).astype(np.float32)
    calibration = quarkfast.calibrate(proto, x)
    for preset in ("A8W8", "U8S8", "XINT8"):
        result = quarkfast.quantize(proto, preset=preset, calibration=calibration)
        assert {"y", "z"} <= {each for node in result.proto.graph.node for each in node.output}


# What a model is used with where its file says nothing of sizes.
USED_WITH = {"ppocr_cls": [1, 3, 48, 192], "ppocr_rec": [1, 3, 48, 320]}
NAMES = (
    *("basic_pitch", "magika", "mnist", "mobilenetv2_cifar10", "ppocr_cls", "ppocr_rec"),
    *("resnet20_cifar10", "resnet56_cifar10", "superres", "text_yolox"),
)


@pytest.mark.parametrize("name", NAMES)
def test_of_the_models_at_hand_one_has_what_is_converted(name, shared):
    """docs/results/quark_checked.md says so: normalizations go into layers, and mobilenetv2's mean drops the plane."""
    model = load_model(shared / "models" / f"{name}.onnx")
    if name in USED_WITH:
        fix_shapes(model, {"x": USED_WITH[name]})
    prepared = prepare(model, 13)
    infer_types(prepared)
    changed = [row.name for row in CONVERSIONS.values() if row.transform(prepared)]
    assert changed == (["split_large_pools"] if name == "ppocr_cls" else [])
    # Its first pool, over 12 x 96 places; the other nine have at most 288.
    assert operators_of(prepared).count("AveragePool") == {"ppocr_cls": 1, "ppocr_rec": 1}.get(name, 0)
    assert not {"BatchNormalization", "Split", "LeakyRelu"} & set(operators_of(prepared))
