"""Logits: what outputs are made from by functions that flatten."""

from __future__ import annotations

import onnx

__all__ = ["FLATTENING", "judge_also", "judge_logits", "logits_of"]

# Functions that give nearly the same for inputs far from zero, whatever these are.
FLATTENING = frozenset({"Softmax", "Sigmoid"})

# Operators that hand values through to an output, rounded ones among them.
_HANDING_ON = frozenset(
    {
        *("Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"),
        *("QuantizeLinear", "DequantizeLinear", "ExtendedQuantizeLinear", "ExtendedDequantizeLinear"),
    }
)


def judge_logits(model: onnx.ModelProto) -> onnx.ModelProto:
    """Makes what Softmax and Sigmoid read the outputs of a model, in place of the probabilities they make of it.

    A classifier that is sure of a sample gives 1 and 0 also after errors that would decide about another one. Logits
    show them on every sample.

    Args:
        model: The model; it is changed.

    Returns:
        `model`.

    Example:
        >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 17]>
        ...     g (float[2] x) => (float[2] y, float[2] z) { z = Neg (x) p = Softmax (z) y = Identity (p) }''')
        >>> [output.name for output in judge_logits(model).graph.output]
        ['z']
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    names = dict.fromkeys(_logits(output.name, makers) for output in model.graph.output)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return model


def logits_of(model: onnx.ModelProto) -> dict[str, str]:
    """Returns output -> the tensor that Softmax or Sigmoid makes it of, for the outputs that one of them makes.

    Example:
        >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 17]>
        ...     g (float[2] x) => (float[2] y, float[2] z) { z = Neg (x) p = Softmax (z) y = Identity (p) }''')
        >>> logits_of(model)
        {'y': 'z'}
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    found = {output.name: _logits(output.name, makers) for output in model.graph.output}
    return {name: logits for name, logits in found.items() if logits != name and logits in makers}


def judge_also(model: onnx.ModelProto, tensor: str) -> onnx.ModelProto:
    """Makes a tensor that a node computes an output of the model, unless it is one; an input stays what it is.

    Args:
        model: The model; it is changed.
        tensor: Its name.

    Returns:
        `model`.
    """
    computed = {name for node in model.graph.node for name in node.output}
    if tensor in computed - {output.name for output in model.graph.output}:
        model.graph.output.append(onnx.ValueInfoProto(name=tensor))
    return model


def _logits(output: str, makers: dict[str, onnx.NodeProto]) -> str:
    name = output
    while name in makers and makers[name].op_type in _HANDING_ON:
        name = makers[name].input[0]
    flattens = name in makers and makers[name].op_type in FLATTENING and makers[name].domain in ("", "ai.onnx")
    return makers[name].input[0] if flattens else output
