"""Whether nodes take each row of a batch by itself, as far as their operators and attributes tell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from quarkfast.deferred import ir
from quarkfast.graph.access import is_constant, is_standard
from quarkfast.graph.operators import SHAPE_READERS

__all__ = ["keeps_rows_apart"]

_Test = Callable[[ir.Node, Collection[ir.Value]], bool]


def keeps_rows_apart(graph: ir.Graph) -> bool:
    """Whether each node surely takes each row of the inputs by itself, and each output has a row for each.

    A row is an index of the first axis. False means that nothing is known: a Reshape to a computed shape may join rows
    or not, and only a run tells.

    Args:
        graph: The graph of a model; what is not known of its shapes counts as unknown.

    Example:
        >>> import onnx
        >>> text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (float[N, 4] y) {'
        >>> models = [onnx.parser.parse_model(f"{text} y = {end} }}") for end in ("Relu(x)", "Softmax<axis = 0>(x)")]
        >>> [keeps_rows_apart(ir.from_proto(model).graph) for model in models]
        [True, False]
    """
    rows = {value for value in graph.inputs if not is_constant(value)}
    fixed = dict.fromkeys(graph.initializers.values())
    for node in graph:
        data = [value for value in node.inputs if value is not None and value not in fixed]
        if not data or (node.op_type in SHAPE_READERS and _fixed_rows(node)):
            fixed |= dict.fromkeys(node.outputs)
        elif is_standard(node) and rows.issuperset(data) and (test := _TESTS.get(node.op_type)) and test(node, rows):
            rows.update(node.outputs)
        else:
            return False
    return rows.issuperset(graph.outputs)


def _fixed_rows(node: ir.Node) -> bool:
    """Whether a Shape leaves the number of rows out."""
    return node.op_type == "Shape" and node.attributes.get_int("start", 0) > 0


def _rank(value: ir.Value | None) -> int:
    """Returns the number of dimensions; 0 where it is not known."""
    return 0 if value is None or value.shape is None else len(value.shape)


def _elementwise(node: ir.Node, rows: Collection[ir.Value]) -> bool:
    """Whether all operands have their rows at the same axis, and constants none in front of it."""
    given = dict.fromkeys(value for value in node.inputs if value is not None)
    if len(given) == 1:
        return True
    ranks = {_rank(value) for value in given if value in rows}
    constants = (value for value in given if value not in rows)
    return len(ranks) == 1 and all(value.shape is not None and _rank(value) <= min(ranks) for value in constants)


def _first_alone(node: ir.Node, rows: Collection[ir.Value]) -> bool:
    """Whether nothing but the first input has rows, each of which gives one."""
    return not any(value in rows for value in node.inputs[1:])


def _behind_axis(default: int | None) -> _Test:
    """Returns the test of an operator that works along one axis: not the first, by number."""

    def test(node: ir.Node, rows: Collection[ir.Value]) -> bool:
        axis = node.attributes.get_int("axis", default)
        ranks = {_rank(value) for value in node.inputs if value in rows}
        return axis is not None and 0 not in ranks and all(axis % rank for rank in ranks)

    return test


def _behind_axes(index: int) -> _Test:
    """Returns the test of an operator that works along axes, its input of that index: among them is not the first."""

    def test(node: ir.Node, rows: Collection[ir.Value]) -> bool:
        axes, rank = _integers(node, index, "axes"), _rank(node.inputs[0])
        if not axes or not rank or not _first_alone(node, rows):
            return False
        rank += len(axes) if node.op_type == "Unsqueeze" else 0
        return all(axis % rank for axis in axes)

    return test


def _concatenates(node: ir.Node, rows: Collection[ir.Value]) -> bool:
    return _behind_axis(None)(node, rows) and all(value in rows for value in node.inputs)


def _pads(node: ir.Node, rows: Collection[ir.Value]) -> bool:
    """Whether no rows are added, or cut."""
    pads = _integers(node, 1, "pads") or []
    return bool(pads) and len(node.inputs) < 4 and not any((pads[0], pads[len(pads) // 2]))


def _gathers(node: ir.Node, rows: Collection[ir.Value]) -> bool:
    table, indices = node.inputs[:2]
    if indices not in rows:
        return _behind_axis(0)(node, rows)
    return table not in rows and node.attributes.get_int("axis", 0) == 0


def _multiplies(node: ir.Node, rows: Collection[ir.Value]) -> bool:
    first, second = node.inputs[:2]
    if second not in rows:
        return is_constant(second) and 2 <= _rank(second) <= _rank(first)
    return first in rows and _rank(first) == _rank(second) > 2


def _reshapes(node: ir.Node, rows: Collection[ir.Value]) -> bool:
    """Whether the first dimension is copied."""
    shape = _integers(node, 1, "shape")
    return (shape or [])[:1] == [0] and not node.attributes.get_int("allowzero", 0)


def _transposes(node: ir.Node, rows: Collection[ir.Value]) -> bool:
    return [*node.attributes.get_ints("perm", ())][:1] == [0]


def _flattens(node: ir.Node, rows: Collection[ir.Value]) -> bool:
    return node.attributes.get_int("axis", 1) == 1


def _normalizes(node: ir.Node, rows: Collection[ir.Value]) -> bool:
    """Whether a BatchNormalization takes the statistics that it was trained with."""
    return not node.attributes.get_int("training_mode", 0) and _first_alone(node, rows)


def _general(node: ir.Node, rows: Collection[ir.Value]) -> bool:
    return not node.attributes.get_int("transA", 0) and _first_alone(node, rows)


def _integers(node: ir.Node, index: int, name: str) -> list[int] | None:
    """Returns whole numbers that an attribute holds, or in later operator sets a constant input."""
    found = node.attributes.get_ints(name, None)
    if found is not None:
        return [*found]
    value = node.inputs[index] if len(node.inputs) > index else None
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return None if tensor is None else [int(each) for each in tensor.numpy().reshape(-1)]


def _rows(test: _Test, *op_types: str) -> dict[str, _Test]:
    return dict.fromkeys(op_types, test)


_TESTS: Mapping[str, _Test] = MappingProxyType(
    {
        **_rows(
            _elementwise,
            "Abs", "Add", "Cast", "Ceil", "Clip", "Cos", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu",
            "Greater", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Less", "Log", "Max", "Min", "Mish", "Mul",
            "Neg", "Not", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sin", "Softplus",
            "Softsign", "Sqrt", "Sub", "Tanh", "Where",
        ),
        **_rows(
            _first_alone,
            "AveragePool", "Conv", "ConvTranspose", "DepthToSpace", "GlobalAveragePool", "GlobalMaxPool",
            "InstanceNormalization", "LRN", "MaxPool", "SpaceToDepth",
        ),
        **_rows(_behind_axis(-1), "LayerNormalization", "LpNormalization"),
        **_rows(_behind_axes(1), "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"),
        **_rows(_behind_axes(1), "Squeeze", "Unsqueeze"),
        **_rows(_behind_axis(0), "ArgMax", "ArgMin", "Split"),
        **_rows(_behind_axis(-1), "LogSoftmax", "Softmax"),
        "BatchNormalization": _normalizes,
        "Concat": _concatenates,
        "Flatten": _flattens,
        "Gather": _gathers,
        "Gemm": _general,
        "MatMul": _multiplies,
        "Pad": _pads,
        "Reshape": _reshapes,
        "Slice": _behind_axes(3),
        "Transpose": _transposes,
    }
)  # fmt: skip
