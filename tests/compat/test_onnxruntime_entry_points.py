"""``quantize_static`` takes onnxruntime's arguments, and refuses what it cannot honour before any work."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import quarkfast
from quarkfast.compat import onnxruntime as compat
from quarkfast.evaluate.exact_sums import exact_session

SAMPLES = [{"x": np.linspace(-1, 3, 24, dtype=np.float32).reshape(1, 2, 3, 4)}]


@pytest.fixture
def model() -> onnx.ModelProto:
    weight = onnx.numpy_helper.from_array(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 2, 1, 2), "w")
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "g", [value("x", 1, [1, 2, 3, 4])], [value("y", 1, None)], [weight])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


class Reader:
    def __init__(self) -> None:
        self.samples = iter(SAMPLES)

    def get_next(self):
        return next(self.samples, None)


def test_a_script_for_onnxruntime_runs_with_its_own_enumerations_and_reader(model, tmp_path):
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType

    out = tmp_path / "out.onnx"
    compat.quantize_static(
        model,
        out,
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod.MinMax,
        extra_options={"ActivationSymmetric": False},
    )
    written = onnx.load(out)
    onnx.checker.check_model(written, full_check=True)
    scale = next(t for t in written.graph.initializer if t.name == "w_scale")
    assert list(scale.dims) == [4]
    got = exact_session(out).run(None, SAMPLES[0])[0]
    want = exact_session(model).run(None, SAMPLES[0])[0]
    # Two weights and two values a sum: each product is off by at most half a step of either factor.
    assert np.abs(got - want).max() < 4 * (4 / 255 + 3 / 127)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"quant_format": compat.QuantFormat.QOperator}, quarkfast.UnsupportedError, "expected QuantFormat.QDQ"),
        ({"nodes_to_quantize": ["cnv"]}, quarkfast.ConfigError, "include: expected the name of a node, got 'cnv'"),
        ({"activation_type": "int8"}, quarkfast.ConfigError, "expected a member of QuantType"),
        ({"calibrate_method": "minmax"}, quarkfast.ConfigError, "expected a calibration method, got 'minmax'"),
        ({"extra_options": {"ActivationSymetric": True}}, quarkfast.ConfigError, "did you mean 'ActivationSymmetric'"),
    ],
)
def test_what_cannot_be_honoured_is_refused_before_any_work(model, tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        compat.quantize_static(model, tmp_path / "out.onnx", Reader(), **options)
    assert not (tmp_path / "out.onnx").exists()


def test_a_script_for_dynamic_quantization_runs_with_onnxruntimes_own_enumeration(model, tmp_path):
    from onnxruntime.quantization import QuantType

    for weight_type in (QuantType.QInt8, QuantType.QUInt8):
        out = tmp_path / f"{weight_type}.onnx"
        compat.quantize_dynamic(model, out, weight_type=weight_type, nodes_to_quantize=["conv"], reduce_range=True)
        written = onnx.load(out)
        assert [node.op_type for node in written.graph.node] == [
            "DynamicQuantizeLinear", "ConvInteger", "Cast", "Mul", "Mul",
        ]  # fmt: skip
        # Convolutions of onnxruntime before 1.24 take no other weights.
        assert {t.name: t.data_type for t in written.graph.initializer}["w_quantized"] == onnx.TensorProto.UINT8


def test_dynamic_quantization_of_a_node_that_does_not_exist_is_refused(model, tmp_path):
    with pytest.raises(quarkfast.ConfigError, match=r"include: expected the name of a node, got 'cnv'; did you mean"):
        compat.quantize_dynamic(model, tmp_path / "out.onnx", nodes_to_quantize=["cnv"])


@pytest.mark.parametrize("weight", ["QInt8", "QUInt8", "QInt16", "QInt4", "QUInt4", "QFLOAT8E4M3FN"])
@pytest.mark.parametrize("activation", ["QInt8", "QUInt8", "QInt16", "QUInt16", "QFLOAT8E4M3FN"])
def test_every_pair_of_onnxruntimes_types_is_written_and_runs(model, tmp_path, activation, weight):
    from onnxruntime.quantization import QuantType

    out, types = tmp_path / "out.onnx", {"activation_type": QuantType[activation], "weight_type": QuantType[weight]}
    compat.quantize_static(model, out, Reader(), per_channel=True, **types)
    onnx.checker.check_model(out, full_check=True)
    written = onnx.load(out).graph
    stored = {tensor.name: tensor.data_type for tensor in written.initializer}
    # float8 is the type that a Cast names; integers have a zero point.
    casts = {node.output[0]: node.attribute[0].i for node in written.node if node.op_type == "Cast"}
    found = casts["x_QuantizeLinear_Output"] if "FLOAT8" in activation else stored["x_zero_point"]
    assert found == QuantType[activation].tensor_type
    assert stored["w_quantized"] == QuantType[weight].tensor_type
    assert np.isfinite(onnxruntime.InferenceSession(out).run(None, SAMPLES[0])[0]).all()
