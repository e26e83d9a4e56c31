"""Outputs that join probabilities and other numbers, scores and boxes: what belongs together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast.evaluate.partial_model import Feed, Piece
from quarkfast.graph.operators import FLATTENING, REARRANGERS, TAKERS

__all__ = ["OutputParts", "judge_parts"]


class OutputParts:
    """The elements of outputs by what joins them, so that each part can be judged by its own power.

    A detector joins boxes and scores in a Concat in front of an output, and all of it together tells of boxes alone.
    What enters such a Concat, moved or joined again on the way, is one part where Sigmoid or Softmax makes it, and
    another where nothing does.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        feeds: Sequence[Feed],
        outputs: Iterable[str],
        folder: Path | None = None,
    ) -> None:
        """Finds out what each element of an output comes from.

        Args:
            model: The float model.
            feeds: Arrays by the names of the inputs.
            outputs: Names of the outputs to split.
            folder: Where the files are that the model refers to, or None where all its constants are in it.

        Raises:
            ModelError: If ONNX Runtime does not take a part of the model.
        """
        makers = {name: node for node in model.graph.node for name in node.output}
        self._flat: dict[str, list[NDArray[np.bool_]]] = {}
        for output in outputs if feeds else ():
            sources = _joined(makers, output)
            flat = [_is_flat(makers, name) for name in sources]
            if any(flat) and not all(flat):
                self._flat[output] = _marks(model, output, dict(zip(sources, flat, strict=True)), feeds, folder)

    def count(self, name: str) -> int:
        """Returns in how many parts an output comes."""
        return 2 if name in self._flat else 1

    def split(self, sample: int, name: str, output: NDArray[np.generic]) -> list[NDArray[np.generic]]:
        """Returns an output in parts, each in one row; in one where only things of one kind are joined.

        Args:
            sample: Index of its feed.
            name: Its name.
            output: What a model with the same outputs gives for it.
        """
        row, flat = output.ravel(), self._flat.get(name)
        if flat is None or flat[sample].size != row.size:
            return [row]
        return [row[~flat[sample]], row[flat[sample]]]


def judge_parts(model: onnx.ModelProto) -> list[tuple[str, ...]]:
    """Makes what a detector joins to an output outputs in its place; others stay.

    Args:
        model: The model; it is changed.

    Returns:
        The outputs that belong together, as `OutputParts` tells them apart: what nothing flattens in front of what
        Sigmoid or Softmax makes.

    Example:
        >>> model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 17]>
        ...     g (float[2] x) => (float[4] y) { s = Sigmoid (x) z = Neg (x) y = Concat <axis = 0> (s, z) }''')
        >>> judge_parts(model)
        [('z',), ('s',)]
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    groups: list[tuple[str, ...]] = []
    for output in model.graph.output:
        sources = _joined(makers, output.name)
        flat = tuple(name for name in sources if _is_flat(makers, name))
        other = tuple(name for name in sources if name not in flat)
        groups += [other, flat] if flat and other else [(output.name,)]
    groups = list(dict.fromkeys(groups))
    del model.graph.output[:]
    names = dict.fromkeys(name for group in groups for name in group)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return groups


def _joined(makers: Mapping[str, onnx.NodeProto], output: str) -> list[str]:
    """Returns what Concats join to an output, with nothing but moves on the way; nothing if one of them is constant."""
    found, waiting = list[str](), [output]
    while waiting:
        name = _source(makers, waiting.pop(), REARRANGERS)
        if name not in makers or makers[name].op_type == "Constant":
            return []
        if makers[name].op_type == "Concat":
            waiting += reversed(makers[name].input)
        else:
            found.append(name)
    return list(dict.fromkeys(found))


def _source(makers: Mapping[str, onnx.NodeProto], name: str, operators: frozenset[str]) -> str:
    while name in makers and makers[name].op_type in operators:
        name = makers[name].input[0]
    return name


def _is_flat(makers: Mapping[str, onnx.NodeProto], name: str) -> bool:
    source = makers.get(_source(makers, name, REARRANGERS | TAKERS))
    return source is not None and source.op_type in FLATTENING


def _marks(
    model: onnx.ModelProto, output: str, sources: Mapping[str, bool], feeds: Sequence[Feed], folder: Path | None
) -> list[NDArray[np.bool_]]:
    """Returns for each feed which elements of an output, in one row, come from a source that is marked."""
    maker, mover = Piece(model, list(sources), (), folder), Piece(model, [output], list(sources), folder)
    known: dict[tuple[tuple[int, ...], ...], NDArray[np.bool_]] = {}
    found = []
    for feed in feeds:
        shapes = tuple(np.shape(each) for each in feed.values())
        if shapes not in known:
            made = zip(sources.items(), maker.run(feed), strict=True)
            marks = {name: np.full(each.shape, flat, np.float32) for (name, flat), each in made}
            (moved,) = mover.run({**feed, **marks})
            known[shapes] = moved.ravel() > 0
        found.append(known[shapes])
    return found
