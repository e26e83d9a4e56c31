"""Affine folding: of small whole numbers and powers of two every sum is exact, so that results are equal bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.pipeline.prepare import prepare
from quarkfast.transforms.fold_affine import fold_affine
from support.tiny_models import operators_of, tiny_model

IMAGE, ROWS = "float[2, 4, 6, 6] x", "float[5, 4] x"
SHAPES = {
    **{"w": (6, 4, 3, 3), "p": (6, 4, 1, 1), "g": (6, 2, 3, 3), "t": (4, 3, 2, 2), "v": (8, 6, 1, 1)},
    **{"m": (4, 6), "n": (6, 4), "q": (6, 3), "flat": (216, 3), "line": (6, 4, 3)},
}
# Powers of two, signs and whole numbers: of six output channels, of four input channels, of all.
CONSTANTS = {
    "b": np.float32([3, -1, 0, 2, 5, -4]),
    "k": np.float32(0.25),
    "one": np.float32([-2.0]),
    "c": np.float32([[[7.0]]]),
    "k6": np.float32([2, -1, 0.5, 4, 1, -8]).reshape(6, 1, 1),
    "c6": np.float32([1, 2, -3, 4, -5, 6]).reshape(1, 6, 1, 1),
    "same": np.broadcast_to(np.float32([1, 2, -3, 4, -5, 6]).reshape(1, 6, 1, 1), (1, 6, 4, 4)).copy(),
    "p6": np.float32([2, 1, 0.5, 4, 1, 8]).reshape(6, 1, 1),
    "k4": np.float32([2, -1, 1, -2]).reshape(4, 1, 1),
    "c4": np.float32([1, 2, -3, 4]).reshape(4, 1, 1),
    "r6": np.float32([2, -1, 0.5, 4, 1, -8]),
    "a6": np.float32([1, 2, -3, 4, -5, 6]),
    "r4": np.float32([2, -1, 1, -2]),
    "a4": np.float32([1, 2, -3, 4]),
    "steps": np.float32([1, 2, 3, 4]),
    "wide": np.float32([1, 1, 8, 1]).reshape(4, 1, 1),
    "zero": np.float32([1, 0, 1, 1, 1, 1]).reshape(6, 1, 1),
    "flat6": np.int64([0, -1]),
    "split": np.int64([2, 6, 16]),
    "axis2": np.int64([2]),
    "axis0": np.int64([0]),
    "pads": np.int64([0, 0, 1, 1, 0, 0, 1, 1]),
    "seven": np.float32(7),
}


def _build(body, inputs=IMAGE, **changed):
    rng = np.random.default_rng(3)
    arrays = {name: rng.integers(-3, 4, shape).astype(np.float32) for name, shape in SHAPES.items()}
    arrays |= CONSTANTS | changed
    used = body.replace(",", " ").replace("(", " ").replace(")", " ").split()
    return tiny_model(f"g ({inputs}) => (y) {{ {body} }}", {k: v for k, v in arrays.items() if k in used})


def _feed(proto):
    rng = np.random.default_rng(9)
    return {
        value.name: rng.integers(-4, 5, [each.dim_value for each in value.type.tensor_type.shape.dim]).astype(
            np.float32
        )
        for value in proto.graph.input
    }


def _run(model, feed):
    return exact_session(model).run(None, feed)


def _folded(proto):
    model = load_model(proto)
    changed = fold_affine(model)
    return model, changed


def _check(proto, operators):
    """Folds twice and compares with the model as it was: the second time changes nothing."""
    model, changed = _folded(proto)
    assert operators_of(model) == operators
    data, feed = serialize(model), _feed(proto)
    for expected, got in zip(_run(proto.SerializeToString(), feed), _run(data, feed), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert changed is (operators != [node.op_type for node in proto.graph.node] or changed)
    assert not fold_affine(model)
    assert serialize(model) == data
    assert [value.name for value in model.graph.outputs] == [value.name for value in proto.graph.output]
    return model


IN_FRONT = {
    "Mul": ("a = Conv (x, w, b)\n y = Mul (a, k)", ["Conv"]),
    "Mul, constant first": ("a = Conv (x, w)\n y = Mul (one, a)", ["Conv"]),
    "Div": ("a = Conv (x, w, b)\n y = Div (a, k)", ["Conv"]),
    "Add": ("a = Conv (x, w)\n y = Add (a, c)", ["Conv"]),
    "Sub": ("a = Conv (x, w, b)\n y = Sub (a, c6)", ["Conv"]),
    "Sub, constant first": ("a = Conv (x, w, b)\n y = Sub (c6, a)", ["Conv"]),
    "Neg": ("a = Conv (x, w, b)\n y = Neg (a)", ["Conv"]),
    "all at once": ("a = Conv (x, w)\n d = Mul (a, k6)\n e = Add (d, c)\n f = Div (e, k)\n y = Sub (c6, f)", ["Conv"]),
    "constant of every place": ("a = Conv (x, w)\n y = Add (a, same)", ["Conv"]),
    "padding": ("a = Conv <pads = [1, 1, 1, 1]> (x, w)\n d = Mul (a, k6)\n y = Add (d, c6)", ["Conv"]),
    "groups": ("a = Conv <group = 2> (x, g, b)\n d = Mul (a, k6)\n y = Add (d, c6)", ["Conv"]),
    "ConvTranspose": ("a = ConvTranspose <group = 2> (x, t)\n d = Mul (a, k6)\n y = Add (d, c6)", ["ConvTranspose"]),
    "Relu": ("a = Conv (x, w, b)\n d = Relu (a)\n y = Mul (d, p6)", ["Conv", "Relu"]),
    "MaxPool": (
        "a = Conv (x, w, b)\n d = MaxPool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> (a)\n e = Mul (d, p6)\n"
        "y = Add (e, c6)",
        ["Conv", "MaxPool"],
    ),
    "AveragePool": (
        "a = Conv (x, w, b)\n d = AveragePool <kernel_shape = [2, 2]> (a)\n e = Mul (d, k6)\n y = Add (e, c6)",
        ["Conv", "AveragePool"],
    ),
    "GlobalAveragePool": (
        "a = Conv (x, w, b)\n d = GlobalAveragePool (a)\n e = Mul (d, k6)\n y = Add (e, c6)",
        ["Conv", "GlobalAveragePool"],
    ),
    "ReduceMean": (
        "a = Conv (x, w, b)\n d = ReduceMean <axes = [2, 3]> (a)\n e = Mul (d, k6)\n y = Add (e, c6)",
        ["Conv", "ReduceMean"],
    ),
    "Reshape": ("a = Conv (x, w, b)\n d = Reshape (a, split)\n y = Mul (d, by_split)", ["Conv", "Reshape"]),
    "Flatten": ("a = Conv (x, w, b)\n d = Flatten (a)\n y = Mul (d, by_flat)", ["Conv", "Flatten"]),
    "Transpose": (
        "a = Conv (x, w, b)\n d = Transpose <perm = [0, 2, 3, 1]> (a)\n y = Mul (d, r6)",
        ["Conv", "Transpose"],
    ),
    "Transpose of all axes": ("a = Conv (x, w, b)\n d = Transpose (a)\n y = Mul (d, by_turn)", ["Conv", "Transpose"]),
    "Squeeze": (
        "a = Conv (x, w, b)\n e = GlobalAveragePool (a)\n d = Squeeze (e, axis2)\n y = Mul (d, by_line)",
        ["Conv", "GlobalAveragePool", "Squeeze"],
    ),
    "Unsqueeze": ("a = Conv (x, w, b)\n d = Unsqueeze (a, axis2)\n y = Mul (d, by_cube)", ["Conv", "Unsqueeze"]),
    "Concat": (
        "a = Conv (x, p, b)\n d = Conv <pads = [1, 1, 1, 1]> (x, w)\n e = Concat <axis = 1> (a, d)\n"
        "f = Mul (e, by_both)\n y = Add (f, c)",
        ["Conv", "Conv", "Concat"],
    ),
    "Concat of places": (
        "a = Conv (x, p, b)\n d = Conv <pads = [1, 1, 1, 1]> (x, w)\n e = Concat <axis = 2> (a, d)\n y = Mul (e, k6)",
        ["Conv", "Conv", "Concat"],
    ),
    "Slice": (
        "a = Conv (x, w, b)\n d = Slice (a, axis0, axis2)\n e = Mul (d, k)\n y = Add (e, c)",
        ["Conv", "Slice"],
    ),
    "Pad with zeros": ("a = Conv (x, w, b)\n d = Pad (a, pads)\n y = Mul (d, k)", ["Conv", "Pad"]),
    "Pad with a copy": ('a = Conv (x, w, b)\n d = Pad <mode = "edge"> (a, pads)\n y = Add (d, c)', ["Conv", "Pad"]),
}
OTHERS = {
    "by_split": np.float32([2, -1, 0.5, 4, 1, -8]).reshape(6, 1),
    "by_flat": np.float32([2, -1, 0.5, 4, 1, -8]).repeat(16),
    "by_turn": np.float32([2, -1, 0.5, 4, 1, -8]).reshape(6, 1),
    "by_line": np.float32([2, -1, 0.5, 4, 1, -8]).reshape(6, 1),
    "by_cube": np.float32([2, -1, 0.5, 4, 1, -8]).reshape(6, 1, 1, 1),
    "by_both": np.float32([2, -1, 0.5, 4, 1, -8, 1, 2, 4, 8, -1, -2]).reshape(12, 1, 1),
}


@pytest.mark.parametrize(("body", "operators"), IN_FRONT.values(), ids=IN_FRONT)
def test_a_step_becomes_part_of_the_layer_in_front(body, operators):
    _check(_build(body, **OTHERS), operators)


DENSE = {
    "Gemm": ("a = Gemm (x, m, b)\n d = Mul (a, r6)\n y = Add (d, a6)", ["Gemm"]),
    "Gemm with factors": (
        "a = Gemm <transB = 1, alpha = 0.5, beta = 2.0> (x, n, b)\n d = Mul (a, r6)\n y = Add (d, k)",
        ["Gemm"],
    ),
    "Gemm with one bias": ("a = Gemm (x, m, one)\n y = Mul (a, r6)", ["Gemm"]),
    "MatMul": ("a = MatMul (x, m)\n y = Mul (a, r6)", ["MatMul"]),
    "MatMul, with a sum": ("a = MatMul (x, m)\n d = Add (a, b)\n e = Mul (d, r6)\n y = Add (a6, e)", ["MatMul", "Add"]),
    "MatMul, sum behind": ("a = MatMul (x, m)\n d = Mul (a, k)\n y = Sub (d, k)", ["MatMul", "Add"]),
    "bias of a Gemm behind": ("d = Mul (x, k)\n y = Gemm (d, m, b)", ["Gemm"]),
    "MatMul behind": ("d = Mul (x, r4)\n y = MatMul (d, m)", ["MatMul"]),
    "MatMul behind that gets a bias": (
        "s = Sigmoid (x)\n r = Round (s)\n d = Add (r, a4)\n y = MatMul (d, m)",
        ["Sigmoid", "Round", "MatMul", "Add"],
    ),
    "MatMul behind with a bias": (
        "s = Sign (x)\n d = Sub (s, a4)\n e = MatMul (d, m)\n y = Add (b, e)",
        ["Sign", "MatMul", "Add"],
    ),
    "Gemm behind": (
        "s = Sign (x)\n d = Sub (a4, s)\n y = Gemm <transB = 1, alpha = 2.0> (d, n, b)",
        ["Sign", "Gemm"],
    ),
    "three layers behind": (
        "d = Mul (x, k)\n e = MatMul (d, m)\n f = MatMul (d, m2)\n h = Gemm (d, m3)\n i = Add (e, f)\n y = Add (i, h)",
        ["MatMul", "MatMul", "Gemm", "Add", "Add"],
    ),
}


@pytest.mark.parametrize(("body", "operators"), DENSE.values(), ids=DENSE)
def test_matrix_products_take_steps(body, operators):
    more = np.random.default_rng(4).integers(-3, 4, (2, 4, 6)).astype(np.float32)
    _check(_build(body, ROWS, m2=more[0], m3=more[1]), operators)


BEHIND = {
    "Mul": ("d = Mul (x, k4)\n y = Conv (d, w, b)", ["Conv"]),
    "Mul in front of padding": ("d = Mul (x, k4)\n y = Conv <pads = [1, 1, 1, 1]> (d, w, b)", ["Conv"]),
    "groups": ("d = Mul (x, k4)\n y = Conv <group = 2> (d, g)", ["Conv"]),
    "ConvTranspose": ("d = Mul (x, k4)\n y = ConvTranspose <group = 2> (d, t)", ["ConvTranspose"]),
    "Add": ("s = Sign (x)\n d = Add (s, c4)\n y = Conv (d, w, b)", ["Sign", "Conv"]),
    "Add, groups": ("s = Sign (x)\n d = Add (s, c4)\n y = Conv <group = 2> (d, g)", ["Sign", "Conv"]),
    "Mul and Add": ("s = Sign (x)\n d = Mul (s, k4)\n e = Add (d, c4)\n y = Conv (e, w, b)", ["Sign", "Conv"]),
    "Relu": ("d = Mul (x, k)\n e = Relu (d)\n y = Conv (e, w)", ["Relu", "Conv"]),
    "pool": (
        "s = Sign (x)\n d = Add (s, c4)\n e = MaxPool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> (d)\n"
        "y = Conv (e, w)",
        ["Sign", "MaxPool", "Conv"],
    ),
    "Transpose": (
        "d = Mul (x, j)\n e = Transpose <perm = [0, 3, 1, 2]> (d)\n y = Conv (e, l)",
        ["Transpose", "Conv"],
    ),
    "Flatten": ("d = Mul (x, k4)\n e = Flatten (d)\n y = Gemm (e, o)", ["Flatten", "Gemm"]),
    "two readers": (
        "d = Mul (x, k4)\n e = Conv (d, w)\n f = Conv (d, u)\n y = Add (e, f)",
        ["Conv", "Conv", "Add"],
    ),
}


@pytest.mark.parametrize(("body", "operators"), BEHIND.values(), ids=BEHIND)
def test_a_step_becomes_part_of_the_layer_behind(body, operators):
    rng = np.random.default_rng(5)
    arrays = {
        "o": rng.integers(-3, 4, (144, 3)).astype(np.float32),
        "u": rng.integers(-3, 4, (6, 4, 3, 3)).astype(np.float32),
        "l": rng.integers(-3, 4, (2, 6, 1, 1)).astype(np.float32),
        "j": np.float32([1, 2, -1, -2, 1, 2]),
    }
    _check(_build(body, **arrays), operators)


def test_padding_leaves_the_sum_and_takes_the_factor():
    body = "s = Sign (x)\n d = Mul (s, k)\n e = Add (d, c4)\n y = Conv <pads = [0, 1, 0, 0]> (e, w, b)"
    model = _check(_build(body), ["Sign", "Add", "Conv"])
    np.testing.assert_array_equal(model.graph[1].inputs[1].const_value.numpy(), CONSTANTS["c4"] * 4)


@pytest.mark.parametrize("padding", ["SAME_UPPER", "SAME_LOWER"])
def test_automatic_padding_is_padding(padding):
    body = f's = Sign (x)\n d = Add (s, c)\n y = Conv <auto_pad = "{padding}"> (d, w, b)'
    _check(_build(body), ["Sign", "Add", "Conv"])


def test_steps_without_a_layer_become_one_product_and_one_sum():
    body = "s = Sign (x)\n d = Div (s, k)\n e = Sub (c, d)\n f = Mul (e, k4)\n h = Add (f, c4)\n y = Sign (h)"
    _check(_build(body), ["Sign", "Mul", "Add", "Sign"])


def test_steps_that_undo_each_other_go():
    body = "s = Sign (x)\n d = Mul (s, k)\n e = Add (d, c)\n f = Sub (e, c)\n h = Div (f, k)\n y = Sign (h)"
    _check(_build(body), ["Sign", "Sign"])


def test_an_output_keeps_its_name_where_a_step_goes():
    model = _check(_build("s = Sign (x)\n y = Mul (s, i)", i=np.float32([1])), ["Sign"])
    assert model.graph[0].outputs[0].name == "y"


LEFT = {
    "an input that is an output": ("y = Mul (x, i)", {}),
    "a factor of zero": ("a = Conv (x, w)\n y = Mul (a, zero)", {}),
    "an infinite factor": ("a = Conv (x, w)\n y = Div (a, zero)", {}),
    "an infinite sum": ("a = Conv (x, w)\n y = Add (a, i)", {"i": np.float32(np.inf)}),
    "weights that would overflow": ("a = Conv (x, w)\n y = Mul (a, i)", {"i": np.float32(1e38), "w": 4}),
    "weights that would vanish": ("a = Conv (x, w)\n y = Mul (a, i)", {"i": np.float32(1e-38)}),
    "numbers that differ from place to place": ("a = Conv (x, w)\n y = Add (a, i)", {"i": np.float32([1, 2, 3, 4])}),
    "numbers of two axes": (
        "a = Conv (x, w)\n y = Mul (a, i)",
        {"i": np.arange(1, 25, dtype=np.float32).reshape(6, 4, 1)},
    ),
    "a constant that adds an axis": (
        "a = Conv (x, w)\n y = Mul (a, i)",
        {"i": np.full((1, 1, 1, 1, 1), 2, np.float32)},
    ),
    "a constant that adds places": (
        "a = GlobalAveragePool (x)\n y = Mul (a, i)",
        {"i": np.full((3, 1), 2, np.float32)},
    ),
    "a constant divided by": ("a = Conv (x, w)\n y = Div (k, a)", {}),
    "a result that two read": ("a = Conv (x, w)\n d = Mul (a, k)\n y = Mul (a, d)", {}),
    "a weight that two read": ("a = Conv (x, w)\n d = Mul (a, k)\n e = Conv (x, w)\n y = Add (d, e)", {}),
    "a negative factor behind Relu": ("a = Conv (x, w)\n d = Relu (a)\n y = Mul (d, one)", {}),
    "a sum behind Relu": ("a = Conv (x, w)\n d = Relu (a)\n y = Add (d, c)", {}),
    "a negative factor behind MaxPool": (
        "a = Conv (x, w)\n d = MaxPool <kernel_shape = [2, 2]> (a)\n y = Mul (d, k6)",
        {},
    ),
    "a sum behind zeros": ("a = Conv (x, w)\n d = Pad (a, pads)\n y = Add (d, c)", {}),
    "a factor behind other padding": ("a = Conv (x, w)\n d = Pad (a, pads, seven)\n y = Mul (d, k)", {}),
    "a sum behind counted padding": (
        "a = Conv (x, w)\n d = AveragePool <kernel_shape = [2, 2], pads = [1, 1, 1, 1], count_include_pad = 1> (a)\n"
        "y = Add (d, c)",
        {},
    ),
    "channels that a mean joins": ("a = Conv (x, w)\n d = ReduceMean <axes = [1]> (a)\n y = Mul (d, steps)", {}),
    "channels that a slice leaves out": ("a = Conv (x, w)\n d = Slice (a, axis0, axis2)\n y = Mul (d, k6)", {}),
    "a sum in front of ConvTranspose": ("s = Sign (x)\n d = Add (s, c)\n y = ConvTranspose (d, t)", {}),
    "a sum at an input": ("d = Add (x, c)\n y = Conv (d, w)", {}),
    "a sum at a moved input": (
        "s = Transpose (x)\n d = Add (s, c)\n y = Conv (d, i)",
        {"i": np.ones((2, 6, 1, 1), np.float32)},
    ),
    "channels that were balanced": ("s = Sign (x)\n d = Mul (s, wide)\n y = Conv (d, w)", {}),
    "a reader that is no layer": (
        "d = Mul (x, k)\n e = Conv (d, w)\n f = Sin (d)\n h = Sign (e)\n y = Concat <axis = 1> (f, x)",
        {},
    ),
}


@pytest.mark.parametrize(("body", "changed"), LEFT.values(), ids=LEFT)
def test_what_no_layer_can_take_stays(body, changed):
    arrays = {"i": np.float32([1])} | changed
    if isinstance(arrays.get("w"), int):
        arrays["w"] = np.full(SHAPES["w"], arrays["w"], np.float32)
    proto = _build(body, **arrays)
    model, changed = _folded(proto)
    assert operators_of(model) == [node.op_type for node in proto.graph.node]
    assert not changed


def test_a_result_that_is_an_output_stays():
    proto = _build("a = Conv (x, w)\n y = Mul (a, k)")
    proto.graph.output.add(name="a")
    assert not _folded(proto)[1]
    proto = _build("d = Mul (x, k)\n y = Conv (d, w)")
    proto.graph.output.add(name="d")
    assert not _folded(proto)[1]


def test_a_bias_that_two_layers_read_is_copied():
    body = "a = Conv (x, w, b)\n d = Add (a, c)\n e = Conv (x, u, b)\n y = Mul (d, e)"
    model = _check(_build(body, u=np.ones((6, 4, 3, 3), np.float32)), ["Conv", "Conv", "Mul"])
    biases = [node.inputs[2] for node in model.graph if node.op_type == "Conv"]
    assert biases[0] is not biases[1]
    np.testing.assert_array_equal(biases[1].const_value.numpy(), CONSTANTS["b"])


def test_a_weight_that_two_layers_read_takes_a_bias():
    body = "a = Conv (x, w)\n d = Add (a, c)\n e = Conv (x, w)\n y = Mul (d, e)"
    _check(_build(body), ["Conv", "Conv", "Mul"])


def test_what_a_body_reads_stays():
    text = """g (float[2, 4, 6, 6] x, bool choose) => (y) {
        a = Conv (x, w)
        d = Mul (a, k)
        y = If (choose) <
            then_branch = then () => (float[2, 6, 4, 4] t) { e = Mul (a, k) \n t = Add (e, d) },
            else_branch = otherwise () => (float[2, 6, 4, 4] f) { h = Conv (x, w2) \n f = Mul (h, k) }
        >
    }"""
    rng = np.random.default_rng(3)
    arrays = {name: rng.integers(-3, 4, (6, 4, 3, 3)).astype(np.float32) for name in ("w", "w2")}
    model, changed = _folded(tiny_model(text, arrays | {"k": np.float32(0.25)}))
    assert not changed
    assert operators_of(model) == ["Conv", "Mul", "If"]


def test_a_part_of_a_function_stays_where_it_is():
    text = "d = Div (x, i)\n e = Erf (d)\n f = Add (e, o)\n h = Mul (x, f)\n z = Mul (h, k)\n y = MatMul (z, m)"
    proto = _build(text, ROWS, i=np.float32(1.4142135), o=np.float32(1))
    assert not _folded(proto)[1]


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 17, 18, 21])
def test_every_operator_set_is_folded(opset):
    arrays = {"w": np.full((2, 4, 3, 3), 3, np.float32), "k": np.float32(0.5), "c": np.float32(2)}
    text = "g (float[2, 4, 6, 6] x) => (float[2, 2, 4, 4] y) { a = Conv (x, w) \n d = Mul (a, k) \n y = Add (d, c) }"
    _check(tiny_model(text, arrays, opset=opset), ["Conv"])


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_axes_are_attributes_or_inputs(opset):
    attributes = opset < 13
    squeeze = "Squeeze <axes = [2, 3]> (m)" if attributes else "Squeeze (m, axes)"
    mean = "ReduceMean <axes = [2, 3]> (a)" if opset < 18 else "ReduceMean (a, axes)"
    body = f"a = Conv (x, w) \n m = {mean} \n s = {squeeze} \n y = Mul (s, k)"
    text = f"g (float[2, 4, 6, 6] x) => (float[2, 6] y) {{ {body} }}"
    arrays = {"w": np.full((6, 4, 3, 3), 4, np.float32), "k": np.float32([1, 2, 4, 0.5, -1, -2])}
    if opset >= 13:
        arrays["axes"] = np.int64([2, 3])
    _check(tiny_model(text, arrays, opset=opset), ["Conv", "ReduceMean", "Squeeze"])


def test_dimensions_that_are_not_known_follow_the_channels():
    text = """g (float[N, 4, H, W] x) => (float[N, H, W, 6] y) {
        a = Conv <pads = [1, 1, 1, 1]> (x, w)
        t = Transpose <perm = [0, 2, 3, 1]> (a)
        y = Mul (t, k)
    }"""
    arrays = {"w": np.full((6, 4, 3, 3), 4, np.float32), "k": np.float32([1, 2, 4, 0.5, -1, -2])}
    model, _ = _folded(tiny_model(text, arrays))
    assert operators_of(model) == ["Conv", "Transpose"]


def test_the_error_is_that_of_one_rounding():
    """Weights and biases equal float64's, rounded; the output differs by what the sums of 36 products may."""
    rng = np.random.default_rng(8)
    arrays = {
        "w": rng.normal(size=(6, 4, 3, 3)),
        "b": rng.normal(size=6),
        "k": rng.normal(size=(6, 1, 1)),
        "c": rng.normal(size=(6, 1, 1)),
    }
    single = {name: array.astype(np.float32) for name, array in arrays.items()}
    body = "a = Conv (x, w, b)\n d = Mul (a, k)\n e = Add (d, c)\n f = Div (e, i)\n y = Sub (f, c)"
    proto = _build(body, i=np.float32([0.3]), **single)
    model, _ = _folded(proto)
    w, b, k, c = (single[name].astype(np.float64) for name in "wbkc")
    factor, third = k.reshape(-1), np.float64(np.float32(0.3))
    found = [value.const_value.numpy() for value in model.graph[0].inputs[1:]]
    exact = w * (factor / third).reshape(-1, 1, 1, 1), (b * factor + c.reshape(-1)) / third - c.reshape(-1)
    for got, expected in zip(found, exact, strict=True):
        # Half an ulp, and what four steps in float64 in another order leave of it.
        np.testing.assert_allclose(got, expected, rtol=2**-24 + 2**-48, atol=2**-48)
    x = np.random.default_rng(1).normal(size=(2, 4, 6, 6)).astype(np.float32)
    ours, theirs = (_run(each, {"x": x})[0] for each in (serialize(model), proto.SerializeToString()))
    # 36 products and a bias, each rounded, and five more roundings: 2^-24 each of the sum of magnitudes.
    reach = (np.abs(w).reshape(6, -1).sum(axis=1) * np.abs(x).max() + np.abs(b)) * np.abs(factor / third)
    bound = 2 * 42 * 2.0**-24 * (reach + np.abs(c.reshape(-1)) * (1 + 1 / third)).reshape(6, 1, 1)
    assert (np.abs(ours - theirs) <= bound).all()


def test_preparation_folds_and_names_the_step():
    model = prepare(load_model(_build("a = Conv (x, w)\n d = Mul (a, k)\n y = Add (d, c)")), 13)
    assert operators_of(model) == ["Conv"]


def test_a_model_without_arithmetic_is_not_looked_at():
    assert not _folded(_build("y = Conv (x, w)"))[1]
