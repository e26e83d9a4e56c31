"""What is no graph is refused in one sentence, in bodies and functions as in the model's own graph."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from quarkfast.errors import ModelError
from quarkfast.graph.load import load_model
from support.tiny_models import conv_relu_model, tiny_model

LINEAR = "g (float[N, 4] x) => (float[N, 4] y) {{ {} }}"
BODY = """g (float[4] x, bool b) => (float[4] y) {{
    y = If (b) <then_branch = yes () => (float[4] p) {{ {} }}, else_branch = no () => (float[4] q) {{ q = Neg (x) }}>
}}"""


def _changed(change, model=None):
    model = conv_relu_model() if model is None else model
    change(model)
    return model


def _twice(field):
    return lambda model: getattr(model.graph, field).append(getattr(model.graph, field)[0])


def _attribute(name, value, node=0):
    def change(model):
        kept = [each for each in model.graph.node[node].attribute if each.name != name]
        del model.graph.node[node].attribute[:]
        model.graph.node[node].attribute.extend(kept)
        if value is not None:
            model.graph.node[node].attribute.append(onnx.helper.make_attribute(name, value))

    return change


def _foreign(model):
    model.opset_import.add(domain="com.microsoft", version=1)
    model.graph.node[0].domain = "com.microsoft"
    _attribute("transA", "a")(model)


def _without_content(model):
    model.graph.node[0].attribute[0].ClearField("t")


def _bytes_as_name(model):
    data = model.graph.node[0].SerializeToString().replace(b"conv_0", b"con\xff_0")
    model.graph.node[0].ParseFromString(data)


def _bytes_as_metadata(model):
    model.metadata_props.add(key="k", value="abc")
    data = model.metadata_props[0].SerializeToString().replace(b"abc", b"a\xffc")
    model.metadata_props[0].ParseFromString(data)


def _nested(depth):
    """Ifs within each other, more than protobuf would read from a file."""
    model = tiny_model(BODY.format("p = Neg (x)"))
    graph = model.graph.node[0].attribute[0].g
    for level in range(depth):
        name = graph.output[0].name
        del graph.node[:]
        node = graph.node.add(op_type="If", name=f"if_{level}", input=["b"], output=[name])
        for attribute in ("then_branch", "else_branch"):
            graph = node.attribute.add(name=attribute, type=onnx.AttributeProto.GRAPH).g
            graph.name = attribute
            graph.node.add(op_type="Neg", input=["x"], output=[f"{attribute}_{level}"])
            graph.output.add(name=f"{attribute}_{level}")
    return model


def _functions(*bodies):
    text = '<ir_version: 8, opset_import: ["": 17, "my": 1]> g (float[4] x) => (float[4] y) { y = my.f (x) }'
    return onnx.parser.parse_model(
        text + "".join(f'<domain: "my", opset_import: ["": 17, "my": 1]> {b}' for b in bodies)
    )


WRONG = {
    "input twice": (_changed(_twice("input")), "expected values with names of their own, got two that are named 'x'"),
    "constant twice": (_changed(_twice("initializer")), "values with names of their own, got two that are named 'w1'"),
    "output twice": (_changed(_twice("node")), "expected values with names of their own, got two that are named 'c1'"),
    "output named as a constant": (
        tiny_model(LINEAR.format("w = Relu (x) y = Add (x, w)"), {"w": np.ones(4, np.float32)}),
        "expected values with names of their own, got two that are named 'w'",
    ),
    "cycle": (tiny_model(LINEAR.format("a = Add (x, b) b = Neg (a) y = Neg (b)")), "without cycles"),
    "feeds itself": (tiny_model(LINEAR.format("y = Add (x, y)")), "without cycles"),
    "cycle within a body": (tiny_model(BODY.format("a = Add (x, p) p = Neg (a)")), "without cycles"),
    "cycle through a body": (tiny_model(BODY.format("p = Neg (y)")), "without cycles"),
    "unknown in a body": (
        tiny_model(BODY.format("p = Add (x, nothing)")),
        "expected every input of a node to exist, got 'nothing' as input of node 'Add', which nothing produces",
    ),
    "unknown output of a body": (
        _changed(
            lambda model: setattr(model.graph.node[0].attribute[0].g.output[0], "name", "none"),
            tiny_model(BODY.format("p = Neg (x)")),
        ),
        "expected every input of a node to exist, got 'none' as input of node 'if_0', which nothing produces",
    ),
    "too few inputs": (tiny_model(LINEAR.format("y = Add (x)")), "node 'add_0': expected 2 inputs of Add, got 1"),
    "too many inputs": (tiny_model(LINEAR.format("y = Relu (x, x)")), "expected 1 inputs of Relu, got 2"),
    "an input left out": (tiny_model(LINEAR.format('y = Add ("", x)')), "expected an input 'A' of Add, got none"),
    "too many outputs": (tiny_model(LINEAR.format("y, z = Relu (x)")), "expected 1 outputs of Relu, got 2"),
    "too few in a body": (tiny_model(BODY.format("p = Add (x)")), "node 'Add': expected 2 inputs of Add, got 1"),
    "attribute of another type": (
        _changed(_attribute("pads", 1.5)),
        "expected an attribute 'pads' of type INTS, got FLOAT",
    ),
    "attribute of another operator set, of another type": (
        _changed(_attribute("block_size", "a"), tiny_model(LINEAR.format("y = QuantizeLinear (x, x)"))),
        "node 'quantizelinear_0': expected an attribute 'block_size' of type INT, got STRING",
    ),
    "attribute of another type in onnxruntime's domain": (
        _changed(_foreign, tiny_model(LINEAR.format("y = FusedMatMul (x, x)"))),
        "node 'fusedmatmul_0': expected an attribute 'transA' of type INT, got STRING",
    ),
    "attribute twice": (
        _changed(lambda model: model.graph.node[0].attribute.append(model.graph.node[0].attribute[0])),
        "node 'conv_0': expected attributes with names of their own, got two of one name",
    ),
    "attribute left out": (tiny_model(LINEAR.format("y = Cast (x)")), "expected an attribute 'to' of Cast, got none"),
    "attribute without value": (
        _changed(_without_content, tiny_model(LINEAR.format("y = Constant <value = float {1.0}> ()"))),
        "expected a value of attribute 'value', got none",
    ),
    "attribute without type": (
        _changed(lambda model: model.graph.node[0].attribute[0].ClearField("type")),
        "node 'conv_0': expected an attribute 'pads' of type INTS, got UNDEFINED",
    ),
    "input without type": (
        _changed(lambda model: setattr(model.graph.input[0].type.tensor_type, "elem_type", 0)),
        "tensor 'x': expected a known element type, got 0",
    ),
    "the runtime's operator": (
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> '
            "g (float[4, 4] x) => (float[4, 4] y) { y = com.microsoft.MatMulNBits <K = 4, N = 4> (x) }"
        ),
        "expected at least 3 inputs of MatMulNBits, got 1",
    ),
    "own operator": (
        onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17, "com.amd.quark": 1]> '
            "g (float[4] x) => (float[4] y) { y = com.amd.quark.BFPQuantizeDequantize (x, x) }"
        ),
        "expected 1 inputs of BFPQuantizeDequantize, got 2",
    ),
    "bytes as name": (_changed(_bytes_as_name), r"expected text in UTF-8, got b'con\\xff_0'"),
    "bytes in metadata": (_changed(_bytes_as_metadata), r"expected text in UTF-8, got b'a\\xffc'"),
    "deep bodies": (_nested(31), "expected at most 30 bodies within each other, got more"),
    "recursion": (_functions("f (x) => (y) { y = my.h (x) }", "h (x) => (y) { y = my.f (x) }"), "without recursion"),
    "unknown in a function": (
        _functions("f (x) => (y) { y = Add (x, nothing) }"),
        "got 'nothing' as input of node 'Add'",
    ),
    "too few for a function": (
        _changed(lambda model: model.graph.node[0].input.pop(), _functions("f (x) => (y) { y = Neg (x) }")),
        "expected an input 'x' of f, got none",
    ),
    "too few in a function": (_functions("f (x) => (y) { y = Add (x) }"), "expected 2 inputs of Add, got 1"),
    "too many for a function": (
        _functions("f () => (y) { y = Constant <value_float = 1.0> () }"),
        "expected 0 inputs, got 1",
    ),
    "two functions": (_functions(*["f (x) => (y) { y = Neg (x) }"] * 2), "local functions with names of their own"),
}


@pytest.mark.parametrize(("model", "sentence"), WRONG.values(), ids=WRONG)
def test_what_is_no_graph_is_one_sentence(model, sentence):
    with pytest.raises(ModelError, match=sentence) as raised:
        load_model(model)
    assert str(raised.value).startswith("model: ")
    assert "\n" not in str(raised.value)


def test_a_graph_made_in_memory_is_held_against_the_same():
    x = ir.val("x", ir.DataType.FLOAT, [4])
    node = ir.node("Add", [x])
    graph = ir.Graph([x], node.outputs, nodes=[node], opset_imports={"": 17}, name="g")
    node.outputs[0].name = "y"
    with pytest.raises(ModelError, match="expected 2 inputs of Add, got 1"):
        load_model(ir.Model(graph, ir_version=8))


RIGHT = {
    "a function of another operator set": onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "my": 1]> g (float[1, 4] x) => (float[A, B] y) {
            axes = Constant <value_ints = [0]> ()
            s = my.f (x)
            y = Unsqueeze (s, axes)
        }
        <domain: "my", opset_import: ["": 11]> f (x) => (y) { y = Squeeze <axes = [0]> (x) }"""
    ),
    "unsorted": tiny_model(LINEAR.format("y = Neg (a) a = Relu (x)")),
    "the same name in two bodies": tiny_model(
        BODY.format("r = Relu (x) p = Neg (r)").replace("q = Neg (x)", "r = Relu (x) q = Neg (r)")
    ),
    "a body that reads what is around it": tiny_model(BODY.format("p = Add (x, x)")),
    "bodies in bodies": _nested(8),
    "an operator that nobody knows": tiny_model(LINEAR.format("y = Unknown <a = 1> (x, x, x)")),
    "optional inputs left out": tiny_model(LINEAR.format('y = Clip (x, "", "")')),
    "functions": _functions("f (x) => (y) { y = my.h (x) }", "h (x) => (y) { y = Neg (x) }"),
}


@pytest.mark.parametrize("model", RIGHT.values(), ids=RIGHT)
def test_what_is_a_graph_is_loaded(model):
    assert load_model(model).graph.outputs[0].name == "y"
