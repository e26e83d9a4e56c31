"""Residual streams of transformers: tensors that one orthogonal matrix may turn without changing the outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, is_read_once, name_of, rank_of
from quarkfast.graph.functions import is_vector
from quarkfast.graph.operators import ROOT_STEPS

__all__ = ["NotRotatableError", "ResidualStream", "find_streams"]

_CENTRING = "LayerNormalization"
_NORMS = frozenset({"RMSNormalization", "SimplifiedLayerNormalization", _CENTRING})


class NotRotatableError(Exception):
    """A stream that something reads or writes which no rotation passes through; says what."""


@dataclass
class ResidualStream:
    """Tensors that sums and normalizations tie together, and the constants around them.

    Attributes:
        values: The tensors.
        sizes: Numbers of channels that constants have; one, or they do not belong together.
        writers: Weights ``[inputs, channels]`` and tables ``[rows, channels]`` that make it.
        biases: Vectors that are added to it.
        readers: Weights ``[channels, outputs]`` that read it.
        gains: Gains of normalizations, with the weights that read what they multiply.
        offsets: Offsets of layer normalizations, with the gains in front of them.
        keeps_mean: Whether a layer normalization subtracts a mean, which a rotation then has to keep.
    """

    values: set[ir.Value] = field(default_factory=set)
    sizes: set[int] = field(default_factory=set)
    writers: list[ir.Value] = field(default_factory=list)
    biases: list[ir.Value] = field(default_factory=list)
    readers: list[ir.Value] = field(default_factory=list)
    gains: list[tuple[ir.Value, list[ir.Value]]] = field(default_factory=list)
    offsets: list[tuple[ir.Value, ir.Value]] = field(default_factory=list)
    keeps_mean: bool = False


def find_streams(graph: ir.Graph) -> Iterator[ResidualStream | NotRotatableError]:
    """Yields the streams of a graph that normalizations read, or what keeps one from being turned.

    1. A sum has the basis of its operands. The root of the mean of squares is the same in every basis, so that a
       normalization without gain passes a rotation on. A gain has to move into the weights that read its result, and
       nothing else may read that.
    2. The operator LayerNormalization subtracts a mean first. A rotation that turns the vector of ones into itself
       keeps it, and passes through. An offset counts in units of the gain, of which none may be zero then.
    3. MatMul with a constant matrix and Gather from a table begin a stream, MatMul with a constant ends it. These
       constants, and vectors that are added, have no other reader.
    4. Nothing passes through any other operator, an input or an output of the graph: such a stream is not turned.
    """
    seen: set[ir.Value] = set()
    for node in graph:
        seed = _seed(node)
        if seed is None or seed in seen:
            continue
        search = _StreamSearch()
        try:
            yield search.explore(seed)
        except NotRotatableError as reason:
            yield reason
        seen |= search.stream.values


def _seed(node: ir.Node) -> ir.Value | None:
    """Returns what a node normalizes, or None."""
    if node.op_type in _NORMS:
        return node.inputs[0]
    if node.op_type in ("Mul", "Div") and len(node.inputs) == 2:
        for value, other in (node.inputs, node.inputs[::-1]):
            if other is not None and _measured(other) is not None and _measured(other) is value:
                return value
    return None


class _StreamSearch:
    """Goes from one tensor of a stream to all of them."""

    def __init__(self) -> None:
        self.stream = ResidualStream()
        self._todo: list[ir.Value] = []
        self._joined: set[ir.Node] = set()

    def explore(self, seed: ir.Value) -> ResidualStream:
        """Returns the stream of a tensor.

        Raises:
            NotRotatableError: It is none that a rotation passes through.
        """
        self._reach(seed)
        while self._todo:
            value = self._todo.pop()
            producer = value.producer()
            if producer is None or value.is_graph_output():
                raise NotRotatableError(f"{name_of(value)!r} is an input or an output of the graph")
            self._written(producer)
            for reader, index in tuple(value.uses()):
                self._read(reader, index, value)
        if len(self.stream.sizes) != 1:
            raise NotRotatableError(f"its constants have {sorted(self.stream.sizes)} channels")
        return self.stream

    def _reach(self, value: ir.Value | None) -> None:
        if value is not None and value not in self.stream.values:
            self.stream.values.add(value)
            self._todo.append(value)

    def _written(self, node: ir.Node) -> None:
        weight = node.inputs[1] if node.op_type == "MatMul" else node.inputs[0]
        if node.op_type == "MatMul" or (node.op_type == "Gather" and node.attributes.get_int("axis", 0) == 0):
            self._take(self.stream.writers, weight, 1, node)
        else:
            self._join(node)

    def _read(self, node: ir.Node, index: int, value: ir.Value) -> None:
        if node.op_type == "MatMul" and index == 0:
            self._take(self.stream.readers, node.inputs[1], 0, node)
        elif not _is_mean_square_of(node, value):
            self._join(node)

    def _take(self, found: list[ir.Value], matrix: ir.Value | None, axis: int, node: ir.Node) -> None:
        """Notes a matrix of which one axis is that of the channels."""
        self.stream.sizes.add(_own(matrix, 2, node)[axis])
        if matrix is not None and matrix not in found:
            found.append(matrix)

    def _join(self, node: ir.Node) -> None:
        """Follows a node whose result has the basis of what it reads."""
        if node in self._joined:
            return
        self._joined.add(node)
        vectors = [value for value in node.inputs if is_vector(value) and value is not None]
        if node.op_type == "Add":
            self._vectors(self.stream.biases, vectors, node)
        elif node.op_type in _NORMS or (node.op_type == "Mul" and len(vectors) == 1):
            if node.op_type in _NORMS and node.attributes.get_int("axis", -1) != -1:
                raise NotRotatableError(f"{name_of(node)!r} normalizes another axis than the last")
            self._gain(vectors[:1], node)
            if node.op_type == _CENTRING:
                self._centre(vectors, node)
        elif node.op_type not in ("Mul", "Div") or not self._scales_rows(node):
            raise NotRotatableError(f"{node.op_type} {name_of(node)!r} reads or writes it")
        else:
            return
        for value in node.inputs:
            if value not in vectors:
                self._reach(value)
        self._reach(node.outputs[0])

    def _centre(self, vectors: list[ir.Value], node: ir.Node) -> None:
        """Notes what a layer normalization has besides a gain: a mean that it subtracts, and perhaps an offset."""
        self.stream.keeps_mean = True
        if len(vectors) != len([each for each in node.inputs if each is not None]) - 1:
            raise NotRotatableError(f"{name_of(node)!r} has no constant gain and offset")
        offsets: list[ir.Value] = []
        self._vectors(offsets, vectors[1:], node)
        if offsets and not array_of(vectors[0]).all():
            raise NotRotatableError(f"{name_of(node)!r} has a gain of zero beside an offset")
        self.stream.offsets += [(offset, vectors[0]) for offset in offsets]

    def _scales_rows(self, node: ir.Node) -> bool:
        """Whether a product has one factor for each row, which a mean square of the stream decides."""
        for value, other in (node.inputs, node.inputs[::-1])[: 1 if node.op_type == "Div" else 2]:
            measured = None if other is None else _measured(other)
            if measured is not None:
                for each in (value, measured, node.outputs[0]):
                    self._reach(each)
                return True
        return False

    def _vectors(self, found: list[ir.Value], vectors: list[ir.Value], node: ir.Node) -> None:
        for vector in vectors:
            self.stream.sizes.add(_own(vector, 1, node)[0])
            found.append(vector)

    def _gain(self, vectors: list[ir.Value], node: ir.Node) -> None:
        weights = [reader.inputs[1] for reader, index in node.outputs[0].uses() if _multiplies(reader, index)]
        others = len(tuple(node.outputs[0].uses())) - len(weights)
        if others or any(output.uses() for output in node.outputs[1:]):
            raise NotRotatableError(
                f"others than products with weights read what {name_of(node)!r} multiplies by a gain"
            )
        gains: list[ir.Value] = []
        self._vectors(gains, vectors, node)
        self.stream.gains += [(gain, [each for each in weights if each is not None]) for gain in gains]


def _multiplies(node: ir.Node, index: int) -> bool:
    return node.op_type == "MatMul" and index == 0 and is_constant(node.inputs[1])


def _own(value: ir.Value | None, rank: int, node: ir.Node) -> tuple[int, ...]:
    """Returns the shape of a constant of float32 that one node reads.

    Raises:
        NotRotatableError: It is none.
    """
    if value is None or not is_constant(value) or value.dtype != ir.DataType.FLOAT or rank_of(value) != rank:
        raise NotRotatableError(f"{node.op_type} {name_of(node)!r} has no constant of {rank} dimensions in float32")
    if not is_read_once(value):
        raise NotRotatableError(f"{name_of(value)!r} has several readers")
    return tuple(array_of(value).shape)


def _is_mean_square_of(node: ir.Node, value: ir.Value) -> bool:
    """Whether a node squares a tensor for sums over its last axis alone."""
    square = node.op_type == "Pow" and node.inputs[0] is value and _is_number(node.inputs[1], 2.0)
    square = square or (node.op_type == "Mul" and all(each is value for each in node.inputs))
    result = node.outputs[0]
    readers = [reader for reader, _ in result.uses()]
    return square and not result.is_graph_output() and bool(readers) and all(map(_sums_last_axis, readers))


def _sums_last_axis(node: ir.Node) -> bool:
    if node.op_type not in ("ReduceMean", "ReduceSum") or not node.attributes.get_int("keepdims", 1):
        return False
    given = node.inputs[1] if len(node.inputs) > 1 else None
    if given is not None:
        return is_constant(given) and array_of(given).ravel().tolist() == [-1]
    return list(node.attributes.get_ints("axes", ())) == [-1]


def _measured(value: ir.Value) -> ir.Value | None:
    """Returns the tensor whose mean squares along its last axis alone decide `value`, one number for each row."""
    node = value.producer()
    while node is not None:
        if _sums_last_axis(node):
            square = None if node.inputs[0] is None else node.inputs[0].producer()
            source = None if square is None else square.inputs[0]
            return source if square is not None and source is not None and _is_mean_square_of(square, source) else None
        inputs = [each for each in node.inputs if each is not None and not _is_number(each)]
        if node.op_type not in ROOT_STEPS or len(inputs) != 1:
            return None
        node = inputs[0].producer()
    return None


def _is_number(value: ir.Value | None, wanted: float | None = None) -> bool:
    if value is None or not is_constant(value) or array_of(value).size != 1:
        return False
    return wanted is None or float(array_of(value).reshape(())) == wanted
