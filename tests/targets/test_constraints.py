from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import quarkfast
from quarkfast.config import PRESETS
from quarkfast.errors import ConfigError
from quarkfast.graph.load import load_model
from quarkfast.kernels import Range
from quarkfast.pipeline.prepare import prepare
from quarkfast.quantization import compute_qparams, place
from quarkfast.targets import TARGETS
from quarkfast.targets.constraints import limit_shifts
from quarkfast.targets.constraints.shift_limits import FixedPointPositions
from support.tiny_models import conv_relu_model, samples, tiny_model


def _refine(proto, ranges):
    scheme = PRESETS["XINT8"]
    target = TARGETS[scheme.target]
    model = prepare(load_model(proto), 13)
    placement = place(model, scheme, target)
    found = {name: Range(-end, end, 10, 0, 0, 0) for name, end in ranges.items()}
    plan = target.refine(model, compute_qparams(model, placement, scheme, target, found))
    return model, plan, FixedPointPositions(plan)


def _position(scale):
    return -int(np.log2(scale))


def test_every_scale_is_a_power_of_two():
    proto = quarkfast.quantize(conv_relu_model(), preset="XINT8", calibration_data=samples()).proto
    scales = [onnx.numpy_helper.to_array(each) for each in proto.graph.initializer if each.name.endswith("_scale")]
    assert scales
    assert all(np.frexp(scale)[0] == 0.5 for scale in scales)


def test_zero_points_are_zero_and_biases_are_int8():
    proto = quarkfast.quantize(conv_relu_model(), preset="XINT8", calibration_data=samples()).proto
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}
    assert not any(array.any() for name, array in constants.items() if name.endswith("_zero_point"))
    assert constants["b1_quantized"].dtype == np.int8


def test_a_quantized_model_runs_plainly():
    result = quarkfast.quantize(conv_relu_model(), preset="XINT8", calibration_data=samples())
    onnx.checker.check_model(result.proto, full_check=True)
    assert np.isfinite(onnxruntime.InferenceSession(result.model_bytes).run(None, {"x": samples()})[0]).all()


def test_inputs_of_an_addition_differ_by_at_most_seven_bits():
    text = "g (float[N, 4] a, float[N, 4] b) => (float[N, 4] y) { y = Add(a, b) }"
    model, _, positions = _refine(tiny_model(text), {"a": 100.0, "b": 0.01, "y": 100.0})
    (add,) = list(model.graph)
    assert positions.of_input(add, 1) - positions.of_input(add, 0) == 7


def test_a_concatenation_has_one_position():
    text = "g (float[N, 4] a, float[N, 4] b) => (float[N, 8] y) { y = Concat<axis = 1>(a, b) }"
    _, plan, _ = _refine(tiny_model(text), {"a": 100.0, "b": 1.0, "y": 100.0})
    assert {float(quantizer.scale) for quantizer in plan.quantizers.values()} == {1.0}


def test_zeros_in_front_of_a_sequence_do_not_decide_the_position_of_the_concatenation():
    text = "g (float[N, 4] a) => (float[N, 8] y) { y = Concat<axis = 1>(zeros, a) }"
    model, _, positions = _refine(tiny_model(text, {"zeros": np.zeros((1, 4), np.float32)}), {"a": 1 / 8, "y": 1 / 8})
    (concat,) = list(model.graph)
    # 127 codes of 2^-10 reach 1/8; the scale of zeros alone is 1, and every value would be 0.
    assert [positions.of_input(concat, 0), positions.of_input(concat, 1), positions.of_output(concat)] == [10, 10, 10]


def test_a_weight_gives_way_where_the_sum_could_not_be_shifted():
    weight = np.full((3, 3, 1, 1), 1e-3, np.float32)
    text = "g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) { y = Conv(x, w) }"
    model, plan, positions = _refine(tiny_model(text, {"w": weight}), {"x": 0.9, "y": 120.0})
    (conv,) = list(model.graph)
    cut = positions.of_input(conv, 1) + positions.of_input(conv, 0) - positions.of_output(conv)
    assert cut == 16
    assert plan.notes == ("1 scales moved to what the accelerator can shift",)


def test_a_weight_whose_scale_moved_is_quantized_with_the_new_one():
    weight = np.full((3, 3, 1, 1), 1e-3, np.float32)
    text = "g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) { y = Conv(x, w) }"
    x = np.clip(samples(), -0.9, 0.9)
    x.flat[0] = 0.9
    result = quarkfast.quantize(tiny_model(text, {"w": weight}), preset="XINT8", calibration_data=x)
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in result.proto.graph.initializer}
    decoded = constants["w_quantized"].astype(np.float64) * constants["w_scale"]
    assert np.abs(decoded - 1e-3).max() <= constants["w_scale"] / 2


def test_an_absorbed_relu_stands_for_the_convolutions_output():
    model, plan, positions = _refine(conv_relu_model(), {"x": 1.0, "r1": 4.0, "c2": 1.0, "y": 4.0})
    conv = next(iter(model.graph))
    assert positions.of_output(conv) == _position(plan.quantizers["r1"].scale)


@pytest.mark.parametrize("preset", ["A8W8", "BF16"])
def test_other_targets_take_the_plan_as_it_is(preset):
    scheme = PRESETS[preset]
    target = TARGETS[scheme.target]
    model = prepare(load_model(conv_relu_model()), 13)
    placement = place(model, scheme, target)
    plan = compute_qparams(
        model, placement, scheme, target, {name: Range(-1, 1, 1, 0, 0, 0) for name in placement.observed}
    )
    assert target.refine(model, plan) is plan


def test_refining_twice_changes_nothing():
    model, plan, _ = _refine(conv_relu_model(), {"x": 100.0, "r1": 0.1, "c2": 100.0, "y": 0.01})
    again = limit_shifts(model, plan)
    assert {name: float(each.scale) for name, each in again.quantizers.items()} == {
        name: float(each.scale) for name, each in plan.quantizers.items()
    }


def test_one_scale_a_channel_is_refused():
    with pytest.raises(ConfigError, match="per_channel: expected False for XINT8, got True; its target has one shift"):
        quarkfast.quantize(conv_relu_model(), preset="XINT8", per_channel=True, calibration_data=samples())


def _conv(weight, bias, ranges):
    text = "g (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) { y = Conv(x, w, b) }"
    model, _, positions = _refine(tiny_model(text, {"w": weight, "b": np.array(bias, np.float32)}), ranges)
    (conv,) = list(model.graph)
    return conv, positions


@pytest.mark.parametrize("channels", [[1e-5, 1e-5, 1e-5], [1e-4, 1e-9, 1e-9]])
def test_a_weight_gives_way_where_its_bias_would_not_fit(channels):
    weight = np.tile(np.array(channels, np.float32).reshape(3, 1, 1, 1), (1, 3, 1, 1))
    conv, positions = _conv(weight, [6.2, -5.0, 3.0], {"x": 3.9, "y": 6.3})
    # 127 codes of 2^-4 reach 7.9, of 2^-5 only 3.97; the accelerator shifts biases by 15 bits at most.
    assert positions.of_input(conv, 2) == 4
    assert positions.of_input(conv, 0) + positions.of_input(conv, 1) == 4 + 15


def test_a_bias_that_fits_leaves_its_weight_alone():
    weight = np.full((3, 3, 1, 1), 1e-2, np.float32)
    conv, positions = _conv(weight, [1.9, -1.0, 0.5], {"x": 3.9, "y": 2.0})
    assert 127 * 2.0 ** -positions.of_input(conv, 2) >= 1.9
    assert positions.of_input(conv, 1) == 13  # 82 codes


def test_an_output_gives_way_where_its_steps_would_be_finer_than_those_of_the_products():
    weight = np.full((3, 3, 1, 1), 0.9, np.float32)
    conv, positions = _conv(weight, [-8.0, -8.0, -8.0], {"x": 3.9, "y": 1e-5})
    assert [positions.of_input(conv, 0), positions.of_input(conv, 1), positions.of_output(conv)] == [5, 7, 12]


def test_weights_far_smaller_than_their_bias_keep_it_whole():
    rng = np.random.default_rng(0)
    constants = {
        "w": (2e-5 * rng.standard_normal((4, 3, 3, 3))).astype(np.float32),
        "b": np.array([5, -4.5, 3, -6.2], np.float32),
    }
    text = "g (float[N, 3, 8, 8] x) => (float[N, 4, 6, 6] y) { y = Conv(x, w, b) }"
    model = tiny_model(text, constants)
    x = rng.standard_normal((8, 3, 8, 8)).astype(np.float32)
    result = quarkfast.quantize(model, preset="XINT8", calibration_data=x)
    whole = onnxruntime.InferenceSession(result.model_bytes).run(None, {"x": x})[0]
    reference = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    # Half a step of the output, and the products, which are less than that step.
    assert np.abs(whole - reference).max() <= 2**-5 + 2**-4
