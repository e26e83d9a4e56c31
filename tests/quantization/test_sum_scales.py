"""A term of a sum of power-of-two scales is rounded once, where the other term lies on the grid of the result."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quarkfast
from quarkfast.evaluate.exact_sums import exact_session
from support.tiny_models import tiny_model

# The second layer is small, so that its own scale is finer than that of the sum, which is the first's.
TEXT = """g (float[N, 1, 4, 4] x) => (float[N, 1, 4, 4] y) {
    a = Conv(x, w)
    b = Conv(x, v)
    s = Add(a, b)
    y = Relu(s)
}"""
RNG = np.random.default_rng(3)
SAMPLES = RNG.uniform(-1, 1, (16, 1, 4, 4)).astype(np.float32)


def _constants(small=0.25):
    return {"w": np.float32([[[[1.7]]]]), "v": np.float32([[[[small]]]])}


def _quantize(text=TEXT, small=0.25, **options):
    return quarkfast.quantize(
        tiny_model(text, _constants(small)),
        preset="XINT8",
        calibration_data={"x": SAMPLES},
        **{"bias_correction": False, "method": "minmax", **options},
    )


def _scales(result):
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    return {
        node.input[0].removesuffix("_QuantizeLinear_Input"): float(constants[node.input[1]])
        for node in result.proto.graph.node
        if node.op_type == "QuantizeLinear"
    }


@pytest.mark.parametrize("operator", ["Add", "Sub"])
def test_a_fine_term_takes_the_step_of_the_result(operator):
    text = TEXT.replace("Add", operator)
    loose, strict = _scales(_quantize(text)), _scales(_quantize(text, strict=True))
    assert strict["b"] < strict["y"] <= strict["a"]
    assert loose == strict | {"b": strict["y"]}


def test_terms_take_their_turns_from_the_end():
    text = TEXT.replace("y = Relu(s)", "c = Conv(x, u)\n    r = Add(s, c)\n    y = Relu(r)")
    constants = _constants() | {"u": np.float32([[[[6.0]]]])}
    model = tiny_model(text, constants)
    given = {"preset": "XINT8", "calibration_data": {"x": SAMPLES}, "method": "minmax", "bias_correction": False}
    loose, strict = (_scales(quarkfast.quantize(model, strict=strict, **given)) for strict in (False, True))
    assert strict["s"] < strict["y"] == strict["c"]
    assert loose == strict | {"s": strict["y"]}  # now both terms of it are finer


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (TEXT.replace("=> (float[N, 1, 4, 4] y)", "=> (float[N, 1, 4, 4] y, float[N, 1, 4, 4] b)"), "an output"),
        (TEXT.replace("y = Relu(s)", "t = Relu(s)\n    y = Mul(t, b)"), "another reader"),
        (
            TEXT.replace("b = Conv(x, v)", "d = Conv(x, v)\n    b = Transpose <perm = [0, 1, 3, 2]> (d)"),
            "another place",
        ),
    ],
)
def test_a_term_that_something_else_shares_keeps_its_scale(text, why):
    assert _scales(_quantize(text)) == _scales(_quantize(text, strict=True)), why


def test_a_term_of_the_users_range_keeps_its_scale():
    given = {"tensors": {"b": {"range": (-0.25, 0.25)}}}
    assert _scales(_quantize(**given))["b"] == _scales(_quantize(strict=True, **given))["b"]


def test_a_term_beside_a_finer_one_keeps_its_scale():
    text = TEXT.replace("a = Conv(x, w)", "a = Conv(x, v)").replace("b = Conv(x, v)", "b = Conv(x, w)")
    given = {"tensors": {"y": {"range": (-64, 64)}}}
    assert _scales(_quantize(text, **given)) == _scales(_quantize(text, strict=True, **given))


def test_scales_that_are_no_powers_of_two_stay():
    given = {"calibration_data": {"x": SAMPLES}, "bias_correction": False}
    model = tiny_model(TEXT, _constants())
    loose, strict = (quarkfast.quantize(model, preset="A8W8", strict=strict, **given) for strict in (False, True))
    assert _scales(loose) == _scales(strict)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    small=st.floats(0.001, 1.6),
    operator=st.sampled_from(["Add", "Sub"]),
    limiter=st.sampled_from(["Relu", "Identity"]),
)
def test_no_element_is_further_from_the_sum_of_what_layers_compute(seed, small, operator, limiter):
    text = TEXT.replace("Add", operator).replace("Relu", limiter)
    others = np.random.default_rng(seed).uniform(-1.5, 1.5, (8, 1, 4, 4)).astype(np.float32)
    loose, strict = (_quantize(text, small, strict=strict).proto for strict in (False, True))
    # All values are dyadic numbers of few bits, so that floats add them up exactly.
    wanted = _run(_without_pairs_of(strict, ("b", "s", "y")), others)
    assert np.all(np.abs(_run(loose, others) - wanted) <= np.abs(_run(strict, others) - wanted))


def _run(model, samples):
    return exact_session(model.SerializeToString()).run(None, {"x": samples})[0]


def _without_pairs_of(model, names):
    """Returns a model in which these tensors, or the results that are named after them, are not rounded."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    rounded = {node.output[0]: node.input[0] for node in changed.graph.node if node.op_type == "QuantizeLinear"}
    for node in changed.graph.node:
        source = rounded.get(node.input[0], "")
        if node.op_type == "DequantizeLinear" and source.removesuffix("_QuantizeLinear_Input") in names:
            node.op_type, node.input[:] = "Identity", [source]
            del node.attribute[:]
    return changed
