"""Models as protobufs, whatever the constants of theirs that lie in files are read for meanwhile."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from quarkfast.graph.access import array_of
from quarkfast.graph.load import load_model
from quarkfast.graph.save import to_proto
from quarkfast.quantization import FloatBias
from support.tiny_models import conv_relu_model


@pytest.fixture
def stored(tmp_path):
    """A model whose constants lie in a file."""
    model = conv_relu_model()
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    return tmp_path / "m.onnx"


@pytest.mark.parametrize(
    "read",
    [array_of, lambda value: FloatBias(value).decoded(), lambda value: value.const_value.numpy()],
    ids=["array", "bias", "onnx_ir"],
)
def test_someone_may_hold_a_constant_of_a_file(read, stored):
    model = load_model(stored)
    held = {name: read(value) for name, value in model.graph.initializers.items()}
    assert held
    proto = to_proto(model)
    for tensor in proto.graph.initializer:
        assert (onnx.numpy_helper.to_array(tensor) == held[tensor.name]).all()
    assert all(isinstance(value.const_value, ir.ExternalTensor) for value in model.graph.initializers.values())
