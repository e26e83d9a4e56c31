"""BatchNormalization in layers: the numbers of onnxscript's rules, bit for bit."""

import numpy as np
import pytest
from onnxscript.rewriter import RewritePass
from onnxscript.rewriter.rules.common import (
    fuse_batchnorm_into_conv_rule,
    fuse_batchnorm_into_conv_transpose_rule,
    fuse_batchnorm_into_gemm_rule,
)

from quarkfast.graph.load import load_model
from quarkfast.transforms.fold_batch_norm import fold_batch_norm
from support.tiny_models import tiny_model

RULES = (fuse_batchnorm_into_conv_rule, fuse_batchnorm_into_conv_transpose_rule, fuse_batchnorm_into_gemm_rule)
# Layer -> shapes of its weight and bias.
LAYERS = {
    "Conv (x, w)": ((4, 3, 3, 3), None),
    "Conv (x, w, b)": ((4, 3, 3, 3), (4,)),
    "Conv <group = 2> (x, w)": ((4, 2, 3, 3), None),
    "ConvTranspose (x, w, b)": ((3, 4, 2, 2), (4,)),
    "ConvTranspose <group = 2> (x, w)": ((6, 2, 2, 2), None),
    "Gemm (x, w, b)": ((3, 4), (4,)),
    "Gemm <transB = 1, alpha = 0.3, beta = 0.7> (x, w, b)": ((4, 3), (1, 4)),
    "Gemm <transB = 1> (x, w)": ((4, 3), None),
}


def _model(layer, weight, bias, norm="BatchNormalization <epsilon = 0.01> (c, gamma, beta, mean, var)", rest=""):
    rng = np.random.default_rng(5)
    shapes = {"w": weight, "b": bias, "gamma": (4,), "beta": (4,), "mean": (4,), "var": (4,)}
    arrays = {name: rng.uniform(0.5, 2, shape).astype(np.float32) for name, shape in shapes.items() if shape}
    inputs = "float[N, K] x" if layer.startswith("Gemm") else "float[N, K, 8, 8] x"
    return tiny_model(f"g ({inputs}) => (float y) {{ c = {layer} \n n = {norm} \n y = Relu (n) \n {rest} }}", arrays)


def _weights(model):
    (layer,) = [node for node in model.graph if node.op_type in ("Conv", "ConvTranspose", "Gemm")]
    arrays = [value.const_value.numpy() for value in layer.inputs[1:]]
    return [(array.dtype, array.shape, array.tobytes()) for array in arrays], {**layer.attributes}


@pytest.mark.parametrize(("layer", "shapes"), LAYERS.items(), ids=LAYERS)
@pytest.mark.parametrize("norm", ["", "<epsilon = 0.01>"])
def test_the_folded_layer_is_that_of_onnxscript(layer, shapes, norm):
    proto = _model(layer, *shapes, f"BatchNormalization {norm} (c, gamma, beta, mean, var)")
    ours, theirs = load_model(proto), load_model(proto)
    fold_batch_norm(ours)
    RewritePass(RULES)(theirs)
    assert [node.op_type for node in ours.graph] == [layer.split()[0], "Relu"]
    assert _weights(ours)[0] == _weights(theirs)[0]
    assert _weights(ours)[1].keys() == _weights(theirs)[1].keys()
    assert ours.graph[0].outputs[0].name == "n"


@pytest.mark.parametrize("rest", ["z = Neg (w)", "z = Neg (c)"], ids=["weight", "result"])
def test_what_others_read_is_left_alone(rest):
    proto = _model("Conv (x, w)", (4, 3, 3, 3), None, rest=rest)
    proto.graph.output.add(name="z")
    model = load_model(proto)
    fold_batch_norm(model)
    assert "BatchNormalization" in [node.op_type for node in model.graph]


def test_statistics_of_the_input_are_left_alone():
    norm = "BatchNormalization <training_mode = 1> (c, gamma, beta, mean, var)"
    proto = _model("Conv (x, w)", (4, 3, 3, 3), None, norm)
    proto.graph.node[1].output.extend(["new_mean", "new_var"])
    model = load_model(proto)
    fold_batch_norm(model)
    assert [node.op_type for node in model.graph] == ["Conv", "BatchNormalization", "Relu"]


def test_a_bias_gets_a_name_of_its_own():
    proto = _model("Conv (x, w)", (4, 3, 3, 3), None, rest="z = Neg (x)")
    proto.graph.node[-1].output[0] = "w_bias"
    proto.graph.output.add(name="w_bias")
    model = load_model(proto)
    fold_batch_norm(model)
    assert [value.name for value in model.graph[0].inputs] == ["x", "w", "w_bias_1"]
