"""Functions of one number, whatever operators an exporter wrote them as: hard-swish, SiLU, GELU, Mish, sigmoids."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, holds_floats, is_constant, is_standard

__all__ = ["SCALAR_FUNCTIONS", "FoundFunction", "ScalarFunction", "find_scalar_functions"]

Values: TypeAlias = NDArray[np.float64]


class ScalarFunction(NamedTuple):
    """One function.

    Attributes:
        name: What the field calls it.
        compute: The function, float64 to float64 of the same shape.
        written_as: How exporters write it.

    Example:
        >>> SCALAR_FUNCTIONS["HardSwish"].compute(np.array([-4.0, 3.0]))
        array([-0.,  3.])
    """

    name: str
    compute: Callable[[Values], Values]
    written_as: str


class FoundFunction(NamedTuple):
    """A function in a graph.

    Attributes:
        entry: The tensor that it is a function of; nothing else reads that.
        nodes: The nodes that compute it, in order; the last one gives the result.
        function: Its row. The result may be a multiple of it: a factor may have moved to the layer behind.
        factor: That factor.
    """

    entry: ir.Value
    nodes: tuple[ir.Node, ...]
    function: ScalarFunction
    factor: float


def _erf(x: Values) -> Values:
    return np.asarray([math.erf(each) for each in np.ravel(x)]).reshape(np.shape(x))


def _sigmoid(x: Values) -> Values:
    # Below -700 its exponential is beyond float64, and the sigmoid 0.
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -700, None))))


def _softplus(x: Values) -> Values:
    return np.asarray(np.logaddexp(0, x))


def _hard_sigmoid(x: Values, slope: float = 1 / 6, offset: float = 0.5) -> Values:
    return np.asarray(np.clip(slope * x + offset, 0, 1))


def _gelu(x: Values) -> Values:
    return x * (1 + _erf(x / math.sqrt(2))) / 2


def _gelu_by_tanh(x: Values) -> Values:
    return np.asarray(x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2)


def _mish(x: Values) -> Values:
    return np.asarray(x * np.tanh(_softplus(x)))


def _hard_swish(x: Values) -> Values:
    return x * _hard_sigmoid(x)


_ROWS = (
    ScalarFunction("Sigmoid", _sigmoid, "Sigmoid; 1 / (1 + Exp(-x))"),
    ScalarFunction("Sigmoid of -x", lambda x: _sigmoid(-x), "1 / (1 + Exp(x)): the sign of -x has moved to a layer"),
    ScalarFunction("Tanh", np.tanh, "Tanh"),
    ScalarFunction(
        "HardSigmoid", _hard_sigmoid,
        "HardSigmoid (PaddlePaddle, PyTorch from opset 14); Add 3, Clip 0 to 6, Div by 6 (PyTorch, TensorFlow)",
    ),
    ScalarFunction(
        "HardSigmoid of slope 0.2", lambda x: _hard_sigmoid(x, 0.2),
        "HardSigmoid by default (Keras 2); Mul by 0.2, Add 0.5, Clip 0 to 1",
    ),
    ScalarFunction(
        "HardSwish", _hard_swish,
        "HardSwish (PyTorch from opset 14); Add 3, Clip 0 to 6, Mul, Div by 6 (PaddlePaddle, PyTorch before); Add 3, "
        "Clip or Relu and Min, Mul by 1/6, Mul (TensorFlow); HardSigmoid, Mul",
    ),
    ScalarFunction("SiLU", lambda x: x * _sigmoid(x), "Sigmoid, Mul (all); Swish of slope 1 (PaddlePaddle)"),
    ScalarFunction("QuickGelu", lambda x: x * _sigmoid(1.702 * x), "Mul by 1.702, Sigmoid, Mul (CLIP)"),
    ScalarFunction("Mish", _mish, "Mish (opset 18); Softplus, Tanh, Mul; Exp, Add 1, Log, Tanh, Mul"),
    ScalarFunction("Gelu", _gelu, "Gelu (opset 20); Div by sqrt 2, Erf, Add 1, Mul, Mul by 0.5, in any order"),
    ScalarFunction(
        "Gelu by Tanh", _gelu_by_tanh,
        "Gelu of approximate='tanh'; Pow or Mul, Mul by 0.044715, Add, Mul by sqrt(2/pi), Tanh, Add 1, Mul, Mul by 0.5",
    ),
)  # fmt: skip

SCALAR_FUNCTIONS: Mapping[str, ScalarFunction] = MappingProxyType({row.name: row for row in _ROWS})
"""Name -> function."""

# Between and beyond the points at which pieces meet, and where none of the functions has come to its end yet.
_PROBES = np.concatenate([np.linspace(-12, 12, 193), [-3 - 1e-3, -3 + 1e-3, 3 - 1e-3, 3 + 1e-3]])

# Of the largest result: constants are float32, exporters write 1/6 as 0.1666667 and sqrt 2 as 1.4142; a step of codes
# of 8 bits is 20 times that. The two forms of Gelu differ by 4e-4 at most, of 12.
_TOLERANCE = 2e-4

# Nodes of the longest form, that of Gelu by Tanh, with a power written as products.
_MOST_NODES = 12

_Step: TypeAlias = "Callable[[ir.Node, list[Values]], Values]"


def _clip(node: ir.Node, given: list[Values]) -> Values:
    low, high = (_bound(node, index, name) for index, name in ((1, "min"), (2, "max")))
    return np.clip(given[0], low, high)


def _bound(node: ir.Node, index: int, name: str) -> float:
    value = node.inputs[index] if index < len(node.inputs) else None
    missing = -math.inf if name == "min" else math.inf
    return node.attributes.get_float(name, missing) if value is None else float(array_of(value).item())


def _hard_sigmoid_of(node: ir.Node, given: list[Values]) -> Values:
    return _hard_sigmoid(given[0], node.attributes.get_float("alpha", 0.2), node.attributes.get_float("beta", 0.5))


def _gelu_of(node: ir.Node, given: list[Values]) -> Values:
    return (_gelu_by_tanh if node.attributes.get_string("approximate", "none") == "tanh" else _gelu)(given[0])


def _first(function: Callable[[Values], Values]) -> _Step:
    return lambda node, given: np.asarray(function(given[0]))


def _both(function: Callable[[Values, Values], Values]) -> _Step:
    return lambda node, given: np.asarray(function(given[0], given[-1]))


_STEPS: Mapping[str, _Step] = {
    "Abs": _first(np.abs),
    "Add": _both(np.add),
    "Clip": _clip,
    "Div": _both(np.divide),
    "Erf": _first(_erf),
    "Exp": _first(np.exp),
    "Gelu": _gelu_of,
    "HardSigmoid": _hard_sigmoid_of,
    "HardSwish": _first(_hard_swish),
    "Identity": _first(np.asarray),
    "Log": _first(np.log),
    "Max": _both(np.maximum),  # of one tensor too
    "Min": _both(np.minimum),
    "Mish": _first(_mish),
    "Mul": _both(np.multiply),
    "Neg": _first(np.negative),
    "Pow": _both(np.power),
    "Reciprocal": _first(np.reciprocal),
    "Relu": _first(lambda x: np.maximum(x, 0)),
    "Sigmoid": _first(_sigmoid),
    "Softplus": _first(_softplus),
    "Sub": _both(np.subtract),
    "Tanh": _first(np.tanh),
}


def find_scalar_functions(graph: ir.Graph, entries: Iterable[ir.Value] | None = None) -> tuple[FoundFunction, ...]:
    """Returns the functions of `SCALAR_FUNCTIONS` that nodes of `graph` compute, in its order.

    A function is a group of nodes that read one tensor and constants of one number, all readers of that tensor, and
    from which one tensor leaves. What it computes at 197 points, up to a factor, tells which one it is, so that any
    spelling is found: the order of operands, Mul by 1/6 or Div by 6, Clip or Min and Max. The longest group counts.

    Args:
        graph: Of the nodes.
        entries: Tensors of floats to look at, whatever is known of their types; all that are known as such by default.
    """
    order = {node: position for position, node in enumerate(graph)}
    if entries is None:
        values = (*graph.inputs, *(output for node in graph for output in node.outputs))
        entries = filter(holds_floats, values)
    found = (_function_of(value, order) for value in entries if not value.is_graph_output())
    return tuple(each for each in found if each is not None)


def _function_of(entry: ir.Value, order: Mapping[ir.Node, int]) -> FoundFunction | None:
    """Returns the longest function of `entry`, if there is one."""
    group: list[ir.Node] = []
    results: dict[ir.Value, Values] = {entry: _PROBES}
    open_values = {entry: len(entry.uses())}
    found = None
    while len(group) < _MOST_NODES and (node := _next_node(open_values, results, group, order)) is not None:
        with np.errstate(all="ignore"):  # what is no number is no function of the table
            results[node.outputs[0]] = _STEPS[node.op_type](node, _operands(node, results))
        group.append(node)
        for value in node.inputs:
            if value in open_values:
                open_values[value] -= 1
        output = node.outputs[0]
        open_values[output] = len(output.uses()) + output.is_graph_output()
        open_values = {value: count for value, count in open_values.items() if count or value is output}
        if set(open_values) == {output} and (row := _row_of(results[output])) is not None:
            found = FoundFunction(entry, tuple(group), *row)
        if output.is_graph_output():
            break
    return found


def _next_node(
    open_values: Mapping[ir.Value, int],
    results: Mapping[ir.Value, Values],
    group: list[ir.Node],
    order: Mapping[ir.Node, int],
) -> ir.Node | None:
    """Returns the first node that computes a function of what is known."""
    readers = {reader for value in open_values for reader, _ in value.uses() if reader not in group}
    ready = [node for node in readers if node in order and _is_step(node, results)]
    return min(ready, key=order.__getitem__, default=None)


def _is_step(node: ir.Node, results: Mapping[ir.Value, Values]) -> bool:
    if not is_standard(node) or node.op_type not in _STEPS or len(node.outputs) != 1:
        return False
    given = [value for value in node.inputs if value is not None]
    if node.op_type == "Clip":
        return given[0] in results and all(map(_is_number, given[1:]))
    if len(given) > 2:  # Max of three
        return False
    return all(value in results or _is_number(value) for value in given)


def _is_number(value: ir.Value) -> bool:
    return is_constant(value) and array_of(value).size == 1


def _operands(node: ir.Node, results: Mapping[ir.Value, Values]) -> list[Values]:
    given = [value for value in node.inputs if value is not None]
    return [results[value] if value in results else array_of(value).astype(np.float64).reshape(()) for value in given]


@cache
def _expected() -> tuple[Values, Values, Values]:
    """Returns what each function gives at the probes, one a row, its sum of squares and its largest magnitude."""
    rows = np.stack([row.compute(_PROBES) for row in _ROWS])
    return rows, np.square(rows).sum(axis=1), np.abs(rows).max(axis=1)


def _row_of(result: Values) -> tuple[ScalarFunction, float] | None:
    """Returns the function that `result` is a multiple of at all points, and the factor."""
    if result.shape != _PROBES.shape or not np.isfinite(result).all():
        return None
    rows, squares, largest = _expected()
    # All at once at first, within twice what is allowed: there is a row for few of the groups that are tried.
    factors = rows @ result / squares
    differences = np.abs(result - factors[:, None] * rows).max(axis=1) / largest
    nearest: tuple[float, ScalarFunction, float] | None = None
    for index in np.flatnonzero(differences <= 2 * _TOLERANCE * np.abs(factors)):
        row, expected = _ROWS[index], rows[index]
        factor = float(result @ expected / (expected @ expected))
        difference = float(np.abs(result - factor * expected).max() / np.abs(expected).max())
        size = abs(factor)
        if size and difference <= _TOLERANCE * size and (nearest is None or difference / size < nearest[0]):
            nearest = difference / size, row, factor
    return None if nearest is None else nearest[1:]
