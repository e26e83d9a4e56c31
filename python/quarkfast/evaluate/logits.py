"""Logits: what outputs are made from by functions that flatten."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast.graph.operators import CODE_READERS, CODE_WRITERS, FLATTENING, REARRANGERS

__all__ = ["Logits", "judge_also", "judge_logits", "logits_of"]

# Where a Sigmoid comes within half a code of 8 bits of 0 and 1. A Softmax is flat nowhere for all logits at once.
_FLAT_FROM = {"Sigmoid": math.log(511), "Softmax": math.inf}

# Operators that hand values through to an output, rounded ones among them.
_HANDING_ON = REARRANGERS | CODE_WRITERS | CODE_READERS


class Logits(NamedTuple):
    """What a flattening function makes an output of.

    Attributes:
        tensor: Its name.
        flat_from: The magnitude from which the function gives nearly the same for all.
    """

    tensor: str
    flat_from: float

    def telling(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns values up to where the function is flat: ranges of activations end there, since nothing is lost.

        Example:
            >>> import numpy as np
            >>> Logits("z", 6.0).telling(np.array([-20.0, 3.0])).tolist()
            [-6.0, 3.0]
        """
        return np.clip(values, -self.flat_from, self.flat_from) if math.isfinite(self.flat_from) else values


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


def logits_of(model: onnx.ModelProto) -> dict[str, Logits]:
    """Returns output -> what Softmax or Sigmoid makes it of, for the outputs that one of them makes.

    Example:
        >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 17]>
        ...     g (float[2] x) => (float[2] y, float[2] z) { z = Neg (x) p = Softmax (z) y = Identity (p) }''')
        >>> logits_of(model)
        {'y': Logits(tensor='z', flat_from=inf)}
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    found = {output.name: _flattened_by(output.name, makers) for output in model.graph.output}
    return {
        name: Logits(node.input[0], _FLAT_FROM[node.op_type])
        for name, node in found.items()
        if node is not None and node.input[0] in makers
    }


def judge_also(model: onnx.ModelProto, tensor: str) -> onnx.ModelProto:
    """Makes a tensor that a node computes an output of the model, unless it is one; an input stays what it is.

    Args:
        model: The model; it is changed.
        tensor: Its name; empty for none.

    Returns:
        `model`.
    """
    computed = {name for node in model.graph.node for name in node.output if name}  # an output left out has none
    if tensor in computed - {output.name for output in model.graph.output}:
        model.graph.output.append(onnx.ValueInfoProto(name=tensor))
    return model


def _logits(output: str, makers: dict[str, onnx.NodeProto]) -> str:
    node = _flattened_by(output, makers)
    return output if node is None else node.input[0]


def _flattened_by(output: str, makers: dict[str, onnx.NodeProto]) -> onnx.NodeProto | None:
    """Returns the Softmax or Sigmoid whose result is an output; None where another operator computes it."""
    name = output
    while name in makers and makers[name].op_type in _HANDING_ON:
        name = makers[name].input[0]
    node = makers.get(name)
    return node if node is not None and node.op_type in FLATTENING and node.domain in ("", "ai.onnx") else None
