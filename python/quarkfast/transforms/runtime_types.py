"""Types and shapes that onnx cannot infer, as ONNX Runtime tells them: of its own operators, and of other domains."""

from __future__ import annotations

import re
from typing import Any

import onnx

from quarkfast import ort
from quarkfast.deferred import ir
from quarkfast.errors import DependencyError, ModelError, UnsupportedError
from quarkfast.graph.access import is_untyped, mark_as_no_tensor, name_of
from quarkfast.graph.contrib import keeps_shape
from quarkfast.graph.external_constants import proto_and_folder, with_constants_as_inputs
from quarkfast.transforms.clean import sort

__all__ = ["take_runtime_types"]

# Bytes from which on a constant is an input of the model that is asked: it decides no shape, and takes no memory.
_LARGE = 4096

_TYPES = {dtype.name.lower(): dtype for dtype in ir.DataType}
_ASKED = "quarkfast.asked_for_types"


def take_runtime_types(model: ir.Model) -> bool:
    """Gives what nodes of the model's own graph compute the types that ONNX Runtime finds, where they have none.

    A session is opened on the nodes, with large constants as inputs, and never run. Where ONNX Runtime does not load
    the model, and where it is not installed, types stay unknown. What it has told once, also nothing, is not asked for
    again.

    Returns:
        Whether there were any.
    """
    computed = (value for node in model.graph for value in node.outputs if value.uses() or value.is_graph_output())
    untyped = {name_of(value): value for value in computed if is_untyped(value)}
    asked: frozenset[str] = model.meta.get(_ASKED, frozenset())
    if asked.issuperset(untyped):
        return False
    model.meta[_ASKED] = asked.union(untyped)
    sort(model)  # verbs that only read a model take its nodes in any order, a copy of it does not
    try:
        outputs = _session(model, list(untyped)).get_outputs()
    except (DependencyError, ModelError, UnsupportedError):
        return False
    found = False
    for output in outputs:
        value = untyped.get(output.name)
        if value is None:
            continue
        value.type = _type(output.type)
        if value.type is None:
            mark_as_no_tensor(value)
            continue
        found = True
        producer = value.producer()
        if value.shape is None and producer is not None:
            own = producer.inputs[0].shape if keeps_shape(producer) and producer.inputs[0] is not None else None
            # No sizes are those of a scalar, and those of what nothing is known of.
            value.shape = own or (ir.Shape(output.shape) if output.shape else None)
    return found


def _session(model: ir.Model, names: list[str]) -> Any:
    constants = model.graph.initializers.values()
    large = [
        name_of(value)
        for value in constants
        if value.const_value is not None
        and value.const_value.dtype != ir.DataType.STRING
        and value.const_value.nbytes >= _LARGE
        and not value.is_graph_output()
    ]
    proto, folder = proto_and_folder(with_constants_as_inputs(model, large))
    known = {output.name for output in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    return ort.inference_session(proto.SerializeToString(), ort.session_options(optimize=False), folder=folder)


def _type(text: str) -> ir.TypeProtocol | None:
    """Returns a type of ONNX Runtime's; None for a map, which onnx-ir has not.

    Example:
        >>> _type("seq(tensor(float))")
        Sequence(Tensor(FLOAT))
    """
    matched = re.fullmatch(r"(tensor|sparse_tensor|seq|optional)\((.*)\)", text)
    if matched is None:
        return None
    kind, inner = matched[1], matched[2]
    if kind in ("tensor", "sparse_tensor"):
        dtype = _TYPES.get(inner)
        make = ir.TensorType if kind == "tensor" else ir.SparseTensorType
        return None if dtype is None else make(dtype)
    element = _type(inner)
    return None if element is None else (ir.SequenceType if kind == "seq" else ir.OptionalType)(element)
