"""What tensors say about themselves, dense and sparse, as constants and in attributes."""

import numpy as np
import onnx
import pytest

from quarkfast.errors import ModelError
from quarkfast.graph.load import load_model
from support.tiny_models import tiny_model

HUGE = 1 << 62


def _tensor(dims=(4,), data_type=1, raw=b"\0\0\x80?" * 4):
    return onnx.TensorProto(name="w", dims=dims, data_type=data_type, raw_data=raw)


def _external(location):
    tensor = onnx.TensorProto(name="w", dims=[4], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


def _sparse(dims=(4,), values=(1.0, 2.0), places=(0, 3), place_type=np.int64):
    return onnx.SparseTensorProto(
        dims=dims,
        values=onnx.numpy_helper.from_array(np.float32(values), "w"),
        indices=onnx.numpy_helper.from_array(np.array(places, place_type)),
    )


def _as_constant(tensor):
    model = tiny_model("g (float[4] x) => (float[4] y) { y = Add (x, w) }")
    graph = model.graph
    (graph.initializer if isinstance(tensor, onnx.TensorProto) else graph.sparse_initializer).append(tensor)
    return model


def _as_attribute(tensor):
    model = tiny_model("g (float[4] x) => (float[4] y) { w = Constant () y = Add (x, w) }")
    field, kind = ("value", "TENSOR") if isinstance(tensor, onnx.TensorProto) else ("sparse_value", "SPARSE_TENSOR")
    attribute = model.graph.node[0].attribute.add(name=field, type=kind)
    (attribute.t if field == "value" else attribute.sparse_tensor).CopyFrom(tensor)
    return model


WRONG = {
    "0 beside huge": (_tensor((0, HUGE, HUGE), raw=b""), "expected at most 2\\^63 - 1 bytes, 0 read as 1, got shape"),
    "huge": (_tensor((HUGE, HUGE), raw=b""), "expected at most 2\\^63 - 1 bytes"),
    "many dimensions": (_tensor((1,) * 65, raw=b"\0" * 4), "expected at most 64 dimensions, got 65"),
    "text as bytes": (_tensor(data_type=8), "expected the text of a tensor of strings, got raw bytes"),
    "no type": (_tensor(data_type=99), "expected a known element type, got 99"),
    "too few bytes": (_tensor((5,)), r"expected 20 bytes for shape \[5\], got 16"),
    "outside": (_external("../w"), "expected external data inside the model's folder, got '../w'"),
    "NUL": (_external("a\0b"), "expected external data inside the model's folder, got"),
    "too long": (_external("a" * 300), "expected external data inside the model's folder, got 'aaa"),
    "loop": (_external("loop"), "expected external data inside the model's folder, got 'loop'"),
    "sparse beyond": (_sparse(places=(0, 4)), r"expected indices within shape \[4\], got some beyond it"),
    "sparse below": (_sparse(places=(-1, 3)), r"expected indices within shape \[4\], got some beyond it"),
    "sparse beyond a row": (_sparse((2, 2), places=[(0, 2), (1, 1)]), r"expected indices within shape \[2, 2\]"),
    "sparse places": (_sparse(places=(0,)), r"expected int64 indices of shape \[2\] or \[2, 1\], got int64 \[1\]"),
    "sparse types": (_sparse(place_type=np.int32), r"expected int64 indices of shape .* got int32 \[2\]"),
    "sparse and huge": (_sparse((0, HUGE, HUGE)), "expected at most 2\\^63 - 1 bytes"),
}


@pytest.mark.parametrize("place", [_as_constant, _as_attribute])
@pytest.mark.parametrize(("tensor", "sentence"), WRONG.values(), ids=WRONG)
def test_a_tensor_that_contradicts_itself_is_one_sentence(tmp_path, tensor, sentence, place):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "m.onnx").write_bytes(place(tensor).SerializeToString())
    with pytest.raises(ModelError, match=f"tensor 'w': {sentence}"):
        load_model(tmp_path / "m.onnx")
