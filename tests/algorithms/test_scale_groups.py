from __future__ import annotations

import numpy as np
import pytest

from quarkfast.algorithms.scale_groups import find_groups
from support.tiny_models import prepared_between_layers

WEIGHTS = {"w0": (4, 3, 1, 1), "w1": (4, 4, 1, 1), "w2": (4, 4, 1, 1), "b0": (4,)}


def _groups(body, **arrays):
    model, values = prepared_between_layers(body, WEIGHTS, "float[N, 4, H, 8]", **arrays)
    return find_groups(model.graph), values


@pytest.mark.parametrize(
    "body",
    [
        "z = Relu (a)",
        "z = LeakyRelu (a)",
        "z = MaxPool <kernel_shape = [1, 1]> (a)",
        "z = AveragePool <kernel_shape = [1, 1]> (a)",
        "z = Transpose <perm = [0, 1, 3, 2]> (a)",
        "r = Relu (a) z = Concat <axis = 2> (a, r)",
        "b = Conv (a, w1) z = Add (b, a)",
        "z = Clip (a, low, high)",
        "g = GlobalAveragePool (a) z = Add (a, g)",
        "q = Conv (x, w3) s = Sigmoid (q) z = Mul (a, s)",
    ],
)
def test_a_factor_passes_from_one_layer_to_the_next(body):
    ends = {"low": 0, "high": 6, "most": np.finfo(np.float32).max, "infinite": np.inf}
    limits = {name: np.float32(value) for name, value in ends.items()}
    groups, values = _groups(body, w3=np.ones((4, 3, 1, 1), np.float32), **limits)
    assert len(groups.limits) == ("high" in body)
    assert groups.of(values["a"]) is groups.of(values["z"])
    assert not groups.is_pinned(values["a"])


@pytest.mark.parametrize(
    "body",
    [
        "z = Sigmoid (a)",
        "z = HardSwish (a)",
        "z = Mul (a, a)",
        "z = Clip (a, high, high)",
        "z = Clip (a, low, x)",
        "z = Clip (a)",
        "s = Softmax (a) z = Add (a, s)",
        "c = Cast <to = 11> (a) z = Cast <to = 1> (c)",
    ],
)
def test_everything_else_keeps_its_factor(body):
    groups, values = _groups(body, low=np.float32(0), high=np.float32(6))
    assert groups.is_pinned(values["a"])
    assert groups.is_pinned(values["z"])


def test_inputs_and_outputs_of_the_graph_keep_their_factor():
    groups, values = _groups("z = Relu (a)")
    assert groups.is_pinned(values["y"])
    first, last = groups.layers[0], groups.layers[-1]
    assert groups.is_pinned(first.data)
    assert groups.is_pinned(last.output)


def test_a_weight_of_two_layers_is_not_multiplied():
    groups, values = _groups("r = Relu (a) b = Conv (r, w1) c = Relu (b) z = Conv (c, w1)")
    assert groups.is_pinned(values["r"])
    assert groups.is_pinned(values["z"])


def test_a_product_with_a_constant_lets_factors_differ():
    groups, values = _groups("r = Relu (a) m = Mul (r, four) z = Add (m, a)", four=np.float32([[[[3.5]]]]))
    (layer,) = (each for each in groups.layers if each.output is values["m"])
    assert layer.data is values["r"]
    assert not layer.divides


def test_constants_near_the_end_of_float32_are_not_multiplied():
    groups, values = _groups("r = Relu (a) n = Add (r, m) z = Add (n, a)", m=np.float32([[[[-3.4e38]]]]))
    assert groups.is_pinned(values["a"])


def test_constants_that_are_to_stay_are_kept():
    groups, values = _groups("r = Relu (a) b = Conv (r, w1) z = Relu (b)")
    groups.keep({"w1"})
    assert groups.of(values["a"]) is groups.of(values["z"])
    assert not groups.is_pinned(values["a"])
    groups.keep({"b0"})
    assert groups.is_pinned(values["a"])
