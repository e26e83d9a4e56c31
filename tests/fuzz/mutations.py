"""What may be wrong with a model, or merely unusual: each changes a protobuf in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import Message

__all__ = ["mutate", "mutate_bytes"]

Rng = np.random.Generator

_INTEGERS = (0, 1, -1, 2, 3, 7, 16, 255, -128, 1 << 20, 1 << 31, -(1 << 31), 1 << 62, -(1 << 63), (1 << 63) - 1)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e-38, 3e38, -3e38, float("inf"), float("-inf"), float("nan"), 1e-8)
_OPERATORS = (
    *("Add", "MatMul", "Conv", "Gemm", "Relu", "Mul", "Div", "Sub", "Transpose", "Reshape", "Flatten", "Concat"),
    *("Split", "Clip", "Softmax", "Identity", "Cast", "Gather", "Squeeze", "Unsqueeze", "Pad", "Slice", "Shape"),
    *("ReduceMean", "BatchNormalization", "LayerNormalization", "InstanceNormalization", "LSTM", "GRU", "Resize"),
    *("QuantizeLinear", "DequantizeLinear", "Constant", "ConstantOfShape", "Where", "Expand", "Tile", "MaxPool"),
    *("AveragePool", "GlobalAveragePool", "ConvTranspose", "PRelu", "Sigmoid", "Erf", "Pow", "Sqrt", "TopK", "If"),
    *("Loop", "Scan", "Einsum", "DepthToSpace", "ConvInteger", "QLinearConv", "QLinearMatMul", "Dropout", "Upsample"),
    *("DynamicQuantizeLinear", "MatMulInteger", "Equal", "Not", "ArgMax", "NonZero", "Range", "CumSum", "Attention"),
    *("BFPQuantizeDequantize", "MXQuantizeDequantize", "DequantizeBlock", "MatMulNBits", "Gelu", "Unknown", "RNN"),
)
_ATTRIBUTES = (
    *("axis", "axes", "perm", "pads", "group", "dilations", "strides", "auto_pad", "alpha", "to", "keepdims", "transB"),
    *("block_size", "ceil_mode", "direction", "layout", "epsilon", "kernel_shape", "value"),
)
_DOMAINS = ("", "ai.onnx", "com.microsoft", "com.amd.quark", "com.vai.quantize", "quarkfast", "my")


def mutate(rng: Rng, model: onnx.ModelProto) -> list[str]:
    """Changes `model` in 1 to 4 places; returns the names of what was done."""
    done = []
    for _ in range(int(rng.choice((1, 1, 1, 2, 2, 3, 4)))):
        change = _CHANGES[int(rng.integers(len(_CHANGES)))]
        change(rng, model)
        done.append(change.__name__.strip("_"))
    return done


def mutate_bytes(rng: Rng, data: bytes) -> bytes:
    """Returns a file with bytes changed, dropped, doubled or cut off."""
    found = bytearray(data)
    kind = rng.integers(4)
    for _ in range(int(rng.integers(1, 9))):
        at = int(rng.integers(len(found)))
        if kind == 0:
            found[at] = int(rng.integers(256))
        elif kind == 1:
            del found[at : at + int(rng.integers(1, 5))]
        elif kind == 2:
            found[at:at] = found[at : at + int(rng.integers(1, 9))]
        else:
            found[at] ^= 1 << int(rng.integers(8))
    return bytes(found[: int(rng.integers(len(found)))] if rng.random() < 0.05 else found)


def _pick(rng: Rng, items: Any) -> Any:
    found = list(items)
    return found[int(rng.integers(len(found)))] if found else None


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                yield from _graphs(body)


def _graph(rng: Rng, model: onnx.ModelProto) -> onnx.GraphProto:
    found = list(_graphs(model.graph))
    return found[0] if rng.random() < 0.4 else _pick(rng, found)


def _node(rng: Rng, model: onnx.ModelProto) -> Any:
    return _pick(rng, _graph(rng, model).node)


def _names(graph: onnx.GraphProto) -> list[str]:
    values = [*(each.name for each in graph.input), *(each.name for each in graph.initializer)]
    return [*values, *(name for node in graph.node for name in node.output)] or [""]


def _tensors(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    found = []
    for graph in _graphs(model.graph):
        found += graph.initializer
        found += [each.t for node in graph.node for each in node.attribute if each.HasField("t")]
    return found


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                yield from _messages(each)


def _any_field(rng: Rng, model: onnx.ModelProto) -> None:
    """Sets, clears, doubles, drops or swaps a field of any message."""
    message = _pick(rng, _messages(model))
    field = _pick(rng, (field for field, _ in message.ListFields()))
    if field is None:
        return
    if field.is_repeated:
        values = getattr(message, field.name)
        at, other = (int(rng.integers(len(values))) for _ in range(2))
        kind = rng.integers(4)
        if kind == 0:
            del values[at]
        elif kind == 1:
            values.extend([values[at]])
        elif kind == 2 or field.message_type is not None:
            kept = list(values)
            kept[at], kept[other] = kept[other], kept[at]
            copies = [
                type(each).FromString(each.SerializeToString()) if isinstance(each, Message) else each for each in kept
            ]
            del values[:]
            values.extend(copies)
        else:
            values[at] = _other(rng, model, field, values[at])
    elif field.message_type is not None or rng.random() < 0.3:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _other(rng, model, field, getattr(message, field.name)))


def _copy(message: Message) -> Message:
    return type(message).FromString(message.SerializeToString())


def _other(rng: Rng, model: onnx.ModelProto, field: Any, value: Any) -> Any:
    if isinstance(value, bool | int):
        number = int(_pick(rng, (*_INTEGERS, value + 1, value - 1, -value)))
        most = 31 if field.type in (field.TYPE_INT32, field.TYPE_ENUM) else 63
        number = min(max(number, -(1 << most)), (1 << most) - 1)
        if field.enum_type is not None:
            return int(_pick(rng, (each.number for each in field.enum_type.values)))
        return max(number, 0) if field.type in (field.TYPE_UINT64, field.TYPE_UINT32) else number
    if isinstance(value, float):
        return _pick(rng, _FLOATS)
    if isinstance(value, bytes):
        return _pick(rng, (b"", value[: len(value) // 2], value + value, b"\xff\xfe", value[::-1]))
    return _pick(rng, ("", *_names(model.graph), "\x1b[31m", "a\0b", "x" * 300))


def _rewire(rng: Rng, model: onnx.ModelProto) -> None:
    graph = _graph(rng, model)
    node = _pick(rng, graph.node)
    if node is not None and node.input:
        node.input[int(rng.integers(len(node.input)))] = _pick(rng, (*_names(graph), *_names(model.graph)))


def _rename_operator(rng: Rng, model: onnx.ModelProto) -> None:
    node = _node(rng, model)
    if node is not None:
        node.op_type = _pick(rng, _OPERATORS)
        if rng.random() < 0.2:
            node.domain = _pick(rng, _DOMAINS)


def _inputs_of_node(rng: Rng, model: onnx.ModelProto) -> None:
    graph = _graph(rng, model)
    node = _pick(rng, graph.node)
    if node is None:
        return
    kind = rng.integers(4)
    if kind == 0 and node.input:
        del node.input[-1]
    elif kind == 1:
        node.input.append(_pick(rng, _names(graph)))
    elif kind == 2 and node.input:
        node.input[int(rng.integers(len(node.input)))] = ""
    elif node.input:
        turned = list(node.input)[::-1]
        del node.input[:]
        node.input.extend(turned)


def _outputs_of_node(rng: Rng, model: onnx.ModelProto) -> None:
    node = _node(rng, model)
    if node is None:
        return
    if rng.random() < 0.5:
        node.output.append(f"more_{int(rng.integers(1000))}")
    elif node.output:
        node.output[int(rng.integers(len(node.output)))] = _pick(rng, ("", *_names(model.graph)))


def _declared_shape(rng: Rng, model: onnx.ModelProto) -> None:
    graph = _graph(rng, model)
    value = _pick(rng, (*graph.input, *graph.output, *graph.value_info))
    if value is None or not value.type.HasField("tensor_type"):
        return
    kind, tensor = rng.integers(5), value.type.tensor_type
    if kind == 0:
        tensor.ClearField("shape")
    elif kind == 1:
        tensor.shape.dim.add(dim_value=int(_pick(rng, _INTEGERS)))
    elif kind == 2 and tensor.shape.dim:
        del tensor.shape.dim[-1]
    elif kind == 3:
        tensor.elem_type = int(rng.integers(0, 27))
    elif tensor.shape.dim:
        size = _pick(rng, tensor.shape.dim)
        if rng.random() < 0.5:
            size.dim_value = int(_pick(rng, _INTEGERS))
        else:
            size.dim_param = _pick(rng, ("N", "", "a b", "N + 1"))


def _array(rng: Rng, model: onnx.ModelProto) -> tuple[Any, Any]:
    tensor = _pick(rng, _tensors(model))
    if (
        tensor is None
        or tensor.data_location == onnx.TensorProto.EXTERNAL
        or tensor.data_type == onnx.TensorProto.STRING
    ):
        return None, None
    try:
        return tensor, onnx.numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError):
        return None, None


def _put(tensor: onnx.TensorProto, array: Any) -> None:
    name = tensor.name
    tensor.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(np.shape(array)), name))


def _extreme_values(rng: Rng, model: onnx.ModelProto) -> None:
    tensor, array = _array(rng, model)
    if tensor is None or not array.size:
        return
    array = array.copy()
    if array.dtype.kind == "f":
        values = (
            np.float64(_pick(rng, _FLOATS)) if rng.random() < 0.6 else array * _pick(rng, (1e30, 1e-30, 1e-42, 0.0))
        )
    else:
        limit = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
        values = _pick(rng, (0, 1, limit.min, limit.max, -1 if limit.min else 1)) if limit else 1
    with np.errstate(all="ignore"):
        if rng.random() < 0.5:
            array.flat[int(rng.integers(array.size))] = np.asarray(values).flat[0]
        else:
            array[...] = values
    _put(tensor, array)


def _other_shape(rng: Rng, model: onnx.ModelProto) -> None:
    """A constant of another shape, with data that fit it."""
    tensor, array = _array(rng, model)
    if tensor is None:
        return
    kind = rng.integers(6)
    if kind == 0:
        array = array[..., :0] if array.ndim else array.reshape(1)[:0]
    elif kind == 1:
        array = array[None]
    elif kind == 2:
        array = array.reshape(-1)
    elif kind == 3 and array.ndim:
        array = array[: max(1, array.shape[0] // 2)]
    elif kind == 4 and array.size:
        array = array.reshape(-1)[:1].reshape(())
    else:
        array = array.T
    _put(tensor, array)


def _other_type(rng: Rng, model: onnx.ModelProto) -> None:
    """A constant of another element type, with data that fit it."""
    tensor, array = _array(rng, model)
    if tensor is None or array.dtype.kind not in "fiub":
        return
    kinds = (np.float16, np.float64, np.int32, np.int64, np.int8, np.uint8, np.bool_, np.uint16, np.complex64)
    with np.errstate(all="ignore"):
        _put(tensor, array.astype(_pick(rng, kinds)))


def _tensor_fields(rng: Rng, model: onnx.ModelProto) -> None:
    tensor = _pick(rng, _tensors(model))
    if tensor is None:
        return
    kind = rng.integers(5)
    if kind == 0:
        tensor.data_type = int(rng.integers(0, 28))
    elif kind == 1 and tensor.dims:
        tensor.dims[int(rng.integers(len(tensor.dims)))] = _pick(rng, _INTEGERS)
    elif kind == 2:
        tensor.raw_data = tensor.raw_data[: len(tensor.raw_data) // 2]
    elif kind == 3:
        tensor.dims.append(_pick(rng, (0, 1, 2, 1 << 40)))
    else:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=_pick(rng, ("m.data", "../m.data", "a\0", "", "/etc/passwd")))


def _attribute(rng: Rng, model: onnx.ModelProto) -> None:
    node = _node(rng, model)
    attribute = None if node is None else _pick(rng, node.attribute)
    if attribute is None:
        return
    kind = rng.integers(6)
    near = int(rng.integers(-4, 6))
    if kind == 0:
        node.attribute.remove(attribute)
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i = near if kind < 4 else _pick(rng, _INTEGERS)
    elif attribute.type == onnx.AttributeProto.INTS and attribute.ints:
        if kind == 1:
            del attribute.ints[-1]
        elif kind == 2:
            attribute.ints.append(near)
        else:
            at = int(rng.integers(len(attribute.ints)))
            attribute.ints[at] = near if kind < 5 else _pick(rng, _INTEGERS)
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = _pick(rng, _FLOATS)
    elif attribute.type == onnx.AttributeProto.STRING:
        attribute.s = _pick(rng, (b"", b"NOTSET", b"SAME_UPPER", b"VALID", b"linear", b"bidirectional", b"\xff", b"x"))
    else:
        attribute.type = int(rng.integers(0, 15))


def _new_attribute(rng: Rng, model: onnx.ModelProto) -> None:
    node = _node(rng, model)
    if node is None:
        return
    name = _pick(rng, _ATTRIBUTES)
    value = _pick(rng, (0, 1, -1, 5, 2.5, "SAME_UPPER", [0, 1], [-1], [1, 1, 1, 1], [2, 2], "reverse"))
    if name not in {each.name for each in node.attribute}:
        node.attribute.append(onnx.helper.make_attribute(name, value))


def _drop_node(rng: Rng, model: onnx.ModelProto) -> None:
    graph = _graph(rng, model)
    node = _pick(rng, graph.node)
    if node is None:
        return
    if node.input and rng.random() < 0.7:  # what read it reads what it read
        for other in graph.node:
            other.input[:] = [node.input[0] if name in node.output else name for name in other.input]
        for value in graph.output:
            value.name = node.input[0] if value.name in node.output else value.name
    graph.node.remove(node)


def _insert_node(rng: Rng, model: onnx.ModelProto) -> None:
    graph = _graph(rng, model)
    node = _pick(rng, graph.node)
    if node is None or not node.input:
        return
    at, name = int(rng.integers(len(node.input))), f"new_{int(rng.integers(10000))}"
    kind = _pick(
        rng, ("Identity", "Relu", "Neg", "Cast", "Transpose", "Softmax", "Flatten", "Unknown", "Sqrt", "Dropout")
    )
    attributes = {"to": int(rng.integers(1, 17))} if kind == "Cast" else {}
    made = onnx.helper.make_node(kind, [node.input[at]], [name], **attributes)
    made.domain = "my" if kind == "Unknown" else ""
    node.input[at] = name
    place = list(graph.node).index(node)
    graph.node.insert(place, made)


def _long_chain(rng: Rng, model: onnx.ModelProto) -> None:
    """Many nodes in a row in front of an input."""
    graph = model.graph
    node = _pick(rng, graph.node)
    if node is None or not node.input or not node.input[0] or rng.random() < 0.8:
        return
    kind, last = (
        _pick(rng, ("Identity", "Relu", "Transpose", "Neg", "Cast", "Dropout", "Reshape", "Mul")),
        node.input[0],
    )
    made, count = [], int(_pick(rng, (50, 1200)))
    extra = {"Reshape": ["chain_shape"], "Mul": [last]}.get(kind, [])
    if kind == "Reshape":
        graph.initializer.append(onnx.numpy_helper.from_array(np.int64([-1]), "chain_shape"))
    for index in range(count):
        attributes = {"to": 1} if kind == "Cast" else {}
        made.append(onnx.helper.make_node(kind, [last, *extra], [f"chain_{index}"], **attributes))
        last = f"chain_{index}"
    node.input[0] = last
    rest = list(graph.node)
    copies = [onnx.NodeProto.FromString(each.SerializeToString()) for each in (*made, *rest)]
    del graph.node[:]
    graph.node.extend(copies)


def _double_node(rng: Rng, model: onnx.ModelProto) -> None:
    graph = _graph(rng, model)
    node = _pick(rng, graph.node)
    if node is not None:
        copied = onnx.NodeProto.FromString(node.SerializeToString())
        copied.output[:] = [name and f"{name}_twice" for name in copied.output]
        graph.node.append(copied)
        if rng.random() < 0.7:
            graph.output.add(name=copied.output[0] if copied.output else "")


def _shuffle(rng: Rng, model: onnx.ModelProto) -> None:
    graph = _graph(rng, model)
    field = _pick(rng, ("node", "input", "output", "initializer"))
    copies = [type(each).FromString(each.SerializeToString()) for each in getattr(graph, field)]
    del getattr(graph, field)[:]
    getattr(graph, field).extend(copies[int(at)] for at in rng.permutation(len(copies)))


def _opset(rng: Rng, model: onnx.ModelProto) -> None:
    if model.opset_import and rng.random() < 0.8:
        model.opset_import[0].version = int(rng.integers(0, 30))
    elif rng.random() < 0.5:
        model.opset_import.add(domain=_pick(rng, _DOMAINS), version=int(rng.integers(0, 30)))
    else:
        model.ir_version = int(rng.integers(0, 15))


def _output(rng: Rng, model: onnx.ModelProto) -> None:
    graph = _graph(rng, model)
    if rng.random() < 0.5:
        graph.output.add(name=_pick(rng, _names(graph)))
    elif graph.output:
        _pick(rng, graph.output).name = _pick(rng, _names(graph))


def _constant_as_input(rng: Rng, model: onnx.ModelProto) -> None:
    tensor = _pick(rng, model.graph.initializer)
    if tensor is not None:
        model.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
        if rng.random() < 0.5:
            model.graph.initializer.remove(tensor)


def _input_as_constant(rng: Rng, model: onnx.ModelProto) -> None:
    value = _pick(rng, model.graph.input)
    if value is not None and value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
        sizes = [min(max(size.dim_value, 1), 8) for size in value.type.tensor_type.shape.dim]
        array = rng.normal(size=sizes).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        model.graph.input.remove(value)


def _constant_as_node(rng: Rng, model: onnx.ModelProto) -> None:
    graph = _graph(rng, model)
    tensor = _pick(rng, graph.initializer)
    if tensor is not None:
        copied = onnx.TensorProto.FromString(tensor.SerializeToString())
        graph.node.insert(0, onnx.helper.make_node("Constant", [], [tensor.name], value=copied))
        graph.initializer.remove(tensor)


def _in_a_branch(rng: Rng, model: onnx.ModelProto) -> None:
    """A node moves into both branches of an If."""
    graph = model.graph
    node = _pick(rng, graph.node)
    if node is None or len(node.output) != 1:
        return
    branches = {}
    for key in ("then_branch", "else_branch"):
        copied = onnx.NodeProto.FromString(node.SerializeToString())
        copied.output[0] = f"{node.output[0]}_{key}"
        branches[key] = onnx.helper.make_graph([copied], key, [], [onnx.ValueInfoProto(name=copied.output[0])])
    made = onnx.helper.make_node("If", ["if_condition"], list(node.output), name="made_if", **branches)
    if "if_condition" not in _names(graph):
        graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "if_condition"))
    node.CopyFrom(made)


def _share(rng: Rng, model: onnx.ModelProto) -> None:
    """A constant takes the place of another, or of a computed operand."""
    graph = model.graph
    tensor, node = _pick(rng, graph.initializer), _pick(rng, graph.node)
    if tensor is not None and node is not None and node.input:
        node.input[int(rng.integers(len(node.input)))] = tensor.name


def _metadata(rng: Rng, model: onnx.ModelProto) -> None:
    key = _pick(rng, (*(each.key for each in model.metadata_props), "quarkfast.scheme", "quarkfast", "quarkfast.model"))
    text = _pick(rng, ("", "null", "[]", "{", '{"name": 3}', "[" * 5000, '"A8W8"', "\x1b[0m"))
    found = [each for each in model.metadata_props if each.key == key]
    if found:
        found[0].value = text
    else:
        model.metadata_props.add(key=key, value=text)


_CHANGES: tuple[Callable[[Rng, onnx.ModelProto], None], ...] = (
    *(_any_field,) * 5, *(_rewire,) * 3, *(_rename_operator,) * 3, *(_inputs_of_node,) * 2, _outputs_of_node,
    *(_declared_shape,) * 2, *(_extreme_values,) * 3, *(_other_shape,) * 3, *(_other_type,) * 2, *(_tensor_fields,) * 2,
    *(_attribute,) * 4, *(_new_attribute,) * 2, _drop_node, *(_insert_node,) * 2, _long_chain, _double_node, _shuffle,
    _opset, _output, _constant_as_input, _input_as_constant, _constant_as_node, _in_a_branch, *(_share,) * 2, _metadata,
)  # fmt: skip
