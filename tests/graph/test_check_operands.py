"""Types and shapes that no operator can take are refused; what exporters leave behind is not."""

import numpy as np
import onnx
import pytest

from quarkfast.errors import ModelError
from quarkfast.graph.load import load_model
from support.tiny_models import tiny_model

_FLOATS = np.ones((5, 3), np.float32)
BODY = """g (float[2, 4] x, bool b) => (float[A, B] y) {
    y = If (b) <then_branch = yes () => (float[A, B] p) { p = MatMul (x, w) },
        else_branch = no () => (float[A, B] q) { q = Neg (x) }>
}"""  # fmt: skip

WRONG = {
    "shapes": (
        tiny_model("g (float[N, 4] x) => (float[N, 3] y) { y = MatMul (x, w) }", {"w": _FLOATS}),
        "node 'matmul_0': expected operands that MatMul can take, got: Incompatible dimensions",
    ),
    "shapes in a body": (
        tiny_model(BODY, {"w": _FLOATS}),
        "expected operands that MatMul can take, got: Incompatible dimensions",
    ),
    "types": (
        tiny_model("g (float[N, 5] x) => (float[N, 3] y) { y = MatMul (x, w) }", {"w": _FLOATS.astype(np.int32)}),
        "expected operands that MatMul can take, got: B has inconsistent type",
    ),
    "empty statistics": (
        tiny_model(
            "g (float[N, 3] x) => (float[N, 3] y) { y = BatchNormalization (x, e, s, s, s) }",
            {"e": np.ones(0, np.float32), "s": np.ones(3, np.float32)},
        ),
        "node 'batchnormalization_0': expected operands that BatchNormalization can take",
    ),
    "rank": (
        tiny_model(
            "g (float[N, 3] x) => (float[N, 3] y) { y = Conv (x, w) }", {"w": np.ones((2, 3, 1, 1), np.float32)}
        ),
        "node 'conv_0': expected operands that Conv can take",
    ),
}


def _blocks(text, dtype):
    model = tiny_model(text, {"w": _FLOATS.astype(dtype)})
    model.opset_import.add(domain="com.amd.quark", version=1)
    graphs = [model.graph, *(each.g for node in model.graph.node for each in node.attribute if each.HasField("g"))]
    for node in (each for graph in graphs for each in graph.node if each.op_type == "BFPQuantizeDequantize"):
        node.domain = "com.amd.quark"
    return model


BLOCKS = "g (float[5] x) => (float[5, 3] y) { y = BFPQuantizeDequantize (w) }"
BLOCKS_IN_BODY = """g (bool b) => (float[5, 3] y) {
    y = If (b) <then_branch = yes () => (float[5, 3] p) { p = BFPQuantizeDequantize (w) },
        else_branch = no () => (float[5, 3] q) { q = Identity (w) }>
}"""
WRONG |= {
    f"types of blocks{where}": (
        _blocks(text, np.float64),
        "BFPQuantizeDequantize can take, got 'w' of type tensor.double",
    )
    for where, text in {"": BLOCKS, " in a body": BLOCKS_IN_BODY}.items()
}


def _declared(text, shape, **arrays):
    model = tiny_model(text, arrays)
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("a", 1, shape))
    return model


def _far(model):
    model.opset_import.add(domain="far", version=1)
    next(node for node in model.graph.node if node.op_type == "Far").domain = "far"
    return model


def _in_files(model):
    tensor = model.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    tensor.external_data.add(key="location", value="data")
    return model


RIGHT = {
    "stale shapes between": _declared("g (float[2, 3] x) => (float[2, 3] y) { a = Relu (x) y = Neg (a) }", [7, 7]),
    "stale shape of an output": tiny_model("g (float[2, 3] x) => (float[7, 7] y) { y = Relu (x) }"),
    "no size of an input": tiny_model("g (float[0, 3] x, float[5, 3] z) => (float[A, B] y) { y = Add (x, z) }"),
    "behind what nobody knows": _far(
        tiny_model("g (float[2, 3] x) => (float[2, 3] y) { a = Far (x) b = Relu (a) y = MatMul (b, x) }")
    ),
    "no types at all behind it": _far(
        tiny_model("g (float[2, 3] x) => (float[2, 3] y) { a = Far (x) y = SequenceConstruct (a) }")
    ),
    "halves in blocks": _blocks(BLOCKS, np.float16),
    "integers behind it": _far(
        tiny_model(
            "g (float[1, 1, 3, 3] x) => (uint8[A, B, C, D] y) { a = Far (x) y = QLinearConv (a, s, z, w, s, z, s, z) }",
            {"s": np.float32(1), "z": np.uint8(0), "w": np.ones((1, 1, 1, 1), np.uint8)},
        )
    ),
    "an expression behind it": _far(
        tiny_model(
            'g (float[2, 3] x) => (bool[2, 3] y) { a = Far (x) y = RegexFullMatch <pattern = "a"> (a) }', opset=21
        )
    ),
    "a one-sided spectrum": tiny_model(
        """g (float[1, 64, 1] x) => (float[1, 7, 4] y) {
            s = STFT (x, step, hann)
            p = ReduceL2 <axes = [-1], keepdims = 0> (s)
            y = MatMul (p, mel)
        }""",
        {"step": np.int64(8), "hann": np.ones(16, np.float32), "mel": np.ones((9, 4), np.float32)},
    ),
    "in an operator set to come": tiny_model("g (float[N, 3] x) => (float[N, 3] y) { y = Relu (x) }", opset=999),
}


@pytest.mark.parametrize(("model", "sentence"), WRONG.values(), ids=WRONG)
def test_operands_that_no_operator_takes_are_one_sentence(model, sentence):
    with pytest.raises(ModelError, match=sentence) as raised:
        load_model(model)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("model", RIGHT.values(), ids=RIGHT)
def test_what_is_declared_and_not_so_is_loaded(model):
    before = model.SerializeToString(deterministic=True)
    assert load_model(model).graph.outputs[0].name == "y"
    assert model.SerializeToString(deterministic=True) == before


def test_shapes_that_lie_in_files_are_not_missed(tmp_path):
    model = tiny_model("g (float[N, 4] x) => (float[A, B] y) { y = Reshape (x, s) }", {"s": np.int64([-1, 2])})
    onnx.save(_in_files(model), tmp_path / "m.onnx")
    (tmp_path / "data").write_bytes(np.int64([-1, 2]).tobytes())
    assert load_model(tmp_path / "m.onnx").graph.initializers["s"].const_value.numpy().tolist() == [-1, 2]
