"""Steep functions: logarithms and roots, whose inputs stay float as the smallest values matter to them most."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from quarkfast.config import TensorSpec
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, holds_floats, is_constant, is_standard, name_of
from quarkfast.graph.operators import (
    JOINING_MOVERS,
    LAYERS,
    LINEAR_STEPS,
    POWER_SUMS,
    RANGE_STEPS,
    STEEP,
)
from quarkfast.graph.subgraphs import bodies_of
from quarkfast.graph.walks import grow_back

__all__ = ["STEEP_REASON", "steep_functions", "transforms_of_inputs"]

STEEP_REASON = "codes cannot carry what a logarithm or a root makes of it"
"""Why such nodes stay float."""

_PASSING = RANGE_STEPS | POWER_SUMS | JOINING_MOVERS


def steep_functions(
    graph: ir.Graph, spec_of: Callable[[str], TensorSpec], is_asked_for: Callable[[ir.Node], bool]
) -> frozenset[ir.Node]:
    """Returns the functions that are steep near zero, and what is in front of them that nothing else reads.

    The codes of an integer format are equally far apart, as are those of a block's elements. A spectrum of powers spans
    twice the decades of the signal: of it they hold the loudest part, and a logarithm makes errors of several units of
    all the rest, where the same codes of the signal itself still tell that apart. Of float16 they end at 6e-8, below
    which powers of quiet sounds, and the floor that is added to them, become zero, and their logarithm infinite.

    1. Arithmetic in front of such a function has no pair, but in formats with the range of float32, whose numbers have
       exponents of their own. What layers compute in front of that keeps its pair.
    2. Unless the layers are a transform of the model's inputs (Fourier, constant-Q, mel): then all from the inputs on
       has none, in any format. Codes of a sound, of its spectrum or of the transform itself drown what is quiet: what
       a sine of eight significant bits adds to a quiet band comes from the loudest.

    Args:
        graph: The graph.
        spec_of: Returns the spec that a tensor would have.
        is_asked_for: Whether the user wants a node quantized.
    """
    nodes = [node for node in graph if is_standard(node) and not is_asked_for(node)]
    fixed = _fixed(graph)
    signals, behind = _transforms(nodes, fixed)
    found = _leading_to_steep(nodes, signals)
    for node in nodes:
        if node not in found or node in signals:
            continue
        moves = node.op_type in JOINING_MOVERS and not fixed(node.outputs[0])
        moved = moves and not any(_maker(value) in found for value in node.inputs)  # codes stay as they are
        if moved or (node not in behind and spec_of(name_of(node.outputs[0])).format.float32_range):
            found.remove(node)
    return frozenset(found)


def transforms_of_inputs(graph: ir.Graph, is_asked_for: Callable[[ir.Node], bool]) -> frozenset[ir.Node]:
    """Returns transforms of the inputs that a logarithm or a root reads, and all from the inputs to there.

    Args:
        graph: The graph.
        is_asked_for: Whether the user wants a node quantized.
    """
    nodes = [node for node in graph if is_standard(node) and not is_asked_for(node)]
    return frozenset().union(*_transforms(nodes, _fixed(graph)))


def _transforms(
    nodes: Sequence[ir.Node], fixed: Callable[[ir.Value | None], bool]
) -> tuple[set[ir.Node], set[ir.Node]]:
    """Returns transforms of the inputs with all in front of them, and with all behind them up to a steep function."""
    products = {node for node in nodes if node.op_type in LAYERS and any(map(fixed, node.inputs[:2]))}
    others = {node for node in nodes if node.op_type in LINEAR_STEPS and _data(node, fixed) == list(node.inputs[:1])}
    leading = _leading_to_steep(nodes, products | others)
    from_inputs = _computed_from_inputs(nodes, leading, fixed)
    transforms = products & from_inputs
    computed = set(transforms)
    for node in nodes:
        if node in from_inputs and any(_maker(value) in computed for value in node.inputs):
            computed.add(node)
    return _in_front_of(transforms, nodes, leading), computed


def _leading_to_steep(nodes: Sequence[ir.Node], others: Collection[ir.Node]) -> set[ir.Node]:
    """Returns the steep functions, and what leads to nothing else: arithmetic, what moves values, and these others."""
    steep = [node for node in nodes if _is_steep(node)]
    return grow_back(reversed(nodes), steep, lambda node: node.op_type in _PASSING or node in others)


def _fixed(graph: Iterable[ir.Node]) -> Callable[[ir.Value | None], bool]:
    """Returns what tells whether a value is a constant, or computed by nodes of the graph from constants alone.

    Folding leaves some, such as a filterbank that is scattered into zeros, which would make the file larger.
    """
    found = set[ir.Node]()

    def fixed(value: ir.Value | None) -> bool:
        return value is not None and (is_constant(value) or value.producer() in found)

    for node in graph:
        if node.inputs and not bodies_of(node) and all(value is None or fixed(value) for value in node.inputs):
            found.add(node)
    return fixed


def _computed_from_inputs(
    nodes: Iterable[ir.Node], among: Collection[ir.Node], fixed: Callable[[ir.Value | None], bool]
) -> set[ir.Node]:
    """Returns the nodes that nodes of `among` alone compute from the model's inputs and constants."""
    found = set[ir.Node]()
    for node in nodes:
        data = _data(node, fixed)
        if node in among and data and all(value.is_graph_input() or value.producer() in found for value in data):
            found.add(node)
    return found


def _data(node: ir.Node, fixed: Callable[[ir.Value | None], bool]) -> list[ir.Value]:
    """Returns what a node reads, without what is fixed and without integers, if known, that say where values go."""
    given = [value for value in node.inputs if value is not None and not fixed(value)]
    return given if node.op_type == "Cast" else [value for value in given if value.dtype is None or holds_floats(value)]


def _in_front_of(layers: Collection[ir.Node], nodes: Sequence[ir.Node], among: Collection[ir.Node]) -> set[ir.Node]:
    """Returns layers, and the nodes of `among` that what they read is computed by."""
    found = set(layers)
    for node in reversed(nodes):
        if node in among and any(reader in found for output in node.outputs for reader, _ in output.uses()):
            found.add(node)
    return found


def _is_steep(node: ir.Node) -> bool:
    if node.op_type != "Pow":
        return node.op_type in STEEP
    exponent = node.inputs[1]
    return is_constant(exponent) and bool((array_of(exponent) < 1).all())


def _maker(value: ir.Value | None) -> ir.Node | None:
    return None if value is None else value.producer()
