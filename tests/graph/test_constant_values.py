"""Values of constants in a protobuf and in files."""

import numpy as np
import onnx

from quarkfast.graph.external import read_constant, replace_constant
from support.tiny_models import tiny_model

TEXT = "g (float[N, 4] x) => (float[N, 4] y) { h = MatMul (x, v) y = MatMul (h, w) }"


def test_values_in_a_file_are_replaced_there_and_nothing_else_is(tmp_path, rng):
    arrays = {name: rng.normal(size=(4, 4)).astype(np.float32) for name in "vw"}
    onnx.save(tiny_model(TEXT, arrays), tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    proto = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    tensors, before = {each.name: each for each in proto.graph.initializer}, proto.SerializeToString()
    for name in "wv":
        wanted = rng.normal(size=(4, 4)).astype(np.float32)
        replace_constant(tensors[name], wanted, tmp_path)
        arrays[name] = wanted
        found = {each: read_constant(tensor, tmp_path).tolist() for each, tensor in tensors.items()}
        assert found == {each: values.tolist() for each, values in arrays.items()}
    assert proto.SerializeToString() == before
    whole = onnx.load(tmp_path / "m.onnx").graph.initializer
    assert [read_constant(each, None).tolist() for each in whole] == [arrays[each.name].tolist() for each in whole]
