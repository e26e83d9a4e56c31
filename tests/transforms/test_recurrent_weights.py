"""Weights of recurrent layers that exporters cut and join: constants of any size, as moves alone make them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import quarkfast
from quarkfast.graph.access import array_of
from quarkfast.graph.load import load_model
from quarkfast.pipeline.prepare import prepare
from support.tiny_models import operators_of, tiny_model

STATE, INPUTS = 64, 48


def _pytorch_lstm(rng):
    """An LSTM as PyTorch exports it: gates i, f, g, o become i, o, f, g, and directions an axis."""

    def reordered(name):
        return f"""
            {name}_i = Slice ({name}, zero, one, axis)
            {name}_fg = Slice ({name}, one, three, axis)
            {name}_o = Slice ({name}, three, four, axis)
            {name}_gates = Concat <axis = 0> ({name}_i, {name}_o, {name}_fg)
            {name}_onnx = Unsqueeze ({name}_gates, axis)"""

    text = f"""g (float[T, N, {INPUTS}] x) => (float[T, 1, N, {STATE}] y) {{{reordered("w")}{reordered("r")}
        y = LSTM <hidden_size = {STATE}> (x, w_onnx, r_onnx)
    }}"""
    ends = {name: np.int64([gates * STATE]) for name, gates in (("zero", 0), ("one", 1), ("three", 3), ("four", 4))}
    arrays = {
        "w": rng.normal(0, 0.1, (4 * STATE, INPUTS)).astype(np.float32),
        "r": rng.normal(0, 0.1, (4 * STATE, STATE)).astype(np.float32),
    }
    assert min(array.nbytes for array in arrays.values()) > 8192  # what the optimizer folds by itself
    return tiny_model(text, {**arrays, **ends, "axis": np.int64([0])})


def test_moves_of_weights_are_folded(rng):
    proto = _pytorch_lstm(rng)
    prepared = prepare(load_model(proto), 17)
    assert operators_of(prepared) == ["LSTM"]
    for name, value in zip("wr", prepared.graph[0].inputs[1:3], strict=True):
        given = next(onnx.numpy_helper.to_array(each) for each in proto.graph.initializer if each.name == name)
        i, f, g, o = np.split(given, 4)
        np.testing.assert_array_equal(array_of(value), np.concatenate([i, o, f, g])[None])


@pytest.mark.parametrize(("preset", "operator"), [("INT8_WO", "LSTM"), ("DYNAMIC", "DynamicQuantizeLSTM")])
def test_such_weights_are_stored_as_codes(rng, preset, operator):
    proto = _pytorch_lstm(rng)
    result = quarkfast.quantize(proto, preset=preset)
    assert operator in {node.op_type for node in result.proto.graph.node}
    assert len(result.model_bytes) < 0.4 * proto.ByteSize()


@pytest.mark.parametrize("kept", ["w_gates", "shown"])
def test_a_weight_that_something_else_reads_too_is_not_stored_twice(rng, kept):
    proto = _pytorch_lstm(rng)
    proto.graph.node.append(onnx.helper.make_node("Mul", ["w", "x"], ["shown"], "mul"))
    proto.graph.output.append(onnx.helper.make_tensor_value_info(kept, onnx.TensorProto.FLOAT, None))
    assert "Concat" in operators_of(prepare(load_model(proto), 17))
