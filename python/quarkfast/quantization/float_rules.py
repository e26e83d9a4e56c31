"""Float rules: which nodes stay float although a target has a rule for them: a table and the engine that reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from quarkfast.config import TensorSpec
from quarkfast.deferred import ir
from quarkfast.graph.access import holds_floats, is_constant, is_standard, name_of
from quarkfast.graph.attention import Masks, adds_bias, find_masks, nodes_before_guards, nodes_of_attention
from quarkfast.graph.functions import nodes_within_functions
from quarkfast.graph.operators import (
    BOX_CHOOSERS,
    BOX_STEPS,
    JOINED_STEPS,
    JOINING_MOVERS,
    MOVERS,
    NORMALIZATIONS,
    RANGE_STEPS,
    RESIDUAL_STEPS,
    RUNTIME_DROPPERS,
    SHAPE_READERS,
    SUMMED_NORMALIZATIONS,
    is_recurrent,
)
from quarkfast.graph.rewriting import why_kept_float
from quarkfast.graph.walks import grow_back, grow_forward, moved_from
from quarkfast.quantization.steep_functions import STEEP_REASON, steep_functions

__all__ = ["FloatNodes", "FloatRule"]

Passes = Callable[[ir.Node], bool]

_DIVISOR = 1


class Facts(NamedTuple):
    """What a rule may look at.

    Attributes:
        graph: The graph.
        spec_of: Returns the spec that a tensor would have.
        is_asked_for: Whether the user wants a node quantized for which the target may have no rule.
        masks: What computes masks in front of a Softmax.
        found: What the rules in front leave float, with the reason.
    """

    graph: ir.Graph
    spec_of: Callable[[str], TensorSpec]
    is_asked_for: Callable[[ir.Node], bool]
    masks: Masks
    found: Mapping[ir.Node, str]

    def spec(self, node: ir.Node) -> TensorSpec:
        """Returns the spec that the first result of a node would have."""
        return self.spec_of(name_of(node.outputs[0]))


class FloatRule(NamedTuple):
    """A group of nodes that stay float: what it begins with, how it grows, and for which formats it holds.

    Attributes:
        reason: Why the nodes stay float.
        seed: Returns the nodes that the group begins with.
        forward: Whether it grows forward through a node.
        back: Whether it grows back through a node, if nothing else reads what that gives.
        enters: Whether it grows back through an input of a node.
        trimmed: Operators that leave the group again where none of it is in front of them: codes stay as they are.
        keeps_seed: Whether the nodes that it begins with belong to it.
        formats: Whether a node stays float that would have such a spec.
        overrides: Whether a node stays float also where the user asks for it.
        unrounded: Whether the nodes read their data as it was computed.
    """

    reason: str
    seed: Callable[[Facts], Iterable[ir.Node]]
    forward: Passes | None = None
    back: Passes | None = None
    enters: Callable[[ir.Node, int], bool] = lambda node, index: True
    trimmed: frozenset[str] = frozenset()
    keeps_seed: bool = True
    formats: Callable[[TensorSpec], bool] = lambda spec: True
    overrides: bool = True
    unrounded: bool = False

    def nodes(self, facts: Facts) -> list[ir.Node]:
        """Returns the nodes that this rule leaves float, in the order of the graph."""
        seed = set(self.seed(facts))
        group = grow_forward(facts.graph, seed, self.forward) if seed and self.forward else set(seed)
        group = grow_back(reversed(facts.graph), group, self.back, self.enters) if seed and self.back else group
        group -= set() if self.keeps_seed else seed
        kept = dict[ir.Node, None]()
        for node in facts.graph if group else ():
            behind = any(value is not None and value.producer() in kept for value in node.inputs)
            if node in group and (behind or node.op_type not in self.trimmed):
                kept[node] = None
        wanted = (node for node in kept if self.overrides or not facts.is_asked_for(node))
        return [node for node in wanted if self.formats(facts.spec(node))]


def _of(op_types: frozenset[str]) -> Passes:
    return lambda node: node.op_type in op_types


def _is_narrow(spec: TensorSpec) -> bool:
    """Whether activations of `spec` are blocks, or integers of 8 bits or fewer."""
    return spec.format.is_block or _is_narrow_integer(spec)


def _is_narrow_integer(spec: TensorSpec) -> bool:
    return spec.format.is_integer and spec.format.bits <= 8


def _lacks_range(spec: TensorSpec) -> bool:
    """Whether a format has no infinities, or no numbers as large as float32 has."""
    return not spec.format.float32_range


def _attention(facts: Facts) -> list[ir.Node]:
    """Returns the nodes of attentions of which a result has few bits, or of a Softmax the scores that it reads."""
    found = []
    for node in nodes_of_attention(facts.graph):
        scores = [value for value in node.inputs[:1] if value is not None and node.op_type == "Softmax"]
        if any(_is_narrow(facts.spec_of(name_of(value))) for value in (node.outputs[0], *scores)):
            found.append(node)
    return found


def _residual_stream(facts: Facts) -> set[ir.Node]:
    """Returns the sums that a float node reads, and arithmetic with constants that nothing but float nodes read."""
    behind = {*facts.found, *(node for rule in _MASKING for node in rule.nodes(facts))}
    found = set[ir.Node]()
    for node in reversed(facts.graph):
        known = node.op_type in RESIDUAL_STEPS and node not in facts.found and not node.outputs[0].is_graph_output()
        if not known or not _is_narrow(facts.spec(node)):
            continue
        readers = {reader for output in node.outputs for reader, _ in output.uses()}
        sums = node.op_type == "Add" and adds_bias(node) is None and not behind.isdisjoint(readers)
        data = [value for value in node.inputs if holds_floats(value) and not is_constant(value)]
        if sums or (len(data) == 1 and readers and readers <= behind):
            found.add(node)
            behind.add(node)
    return found


def _shown_sums(facts: Facts) -> list[ir.Node]:
    sums = (value.producer() for value in facts.masks.sums if value.is_graph_output())
    return [node for node in sums if node is not None and node.outputs[0] in facts.masks.sums]


def _cubic_resizes(facts: Facts) -> list[ir.Node]:
    """Returns the cubic Resizes to integers."""
    resizes = (node for node in facts.graph if is_standard(node) and node.op_type == "Resize")
    cubic = (node for node in resizes if node.attributes.get_string("mode", "nearest") == "cubic")
    return [node for node in cubic if facts.spec(node).format.is_integer]


def _of_constant(node: ir.Node) -> bool:
    return any(map(is_constant, moved_from(node.inputs[0], RUNTIME_DROPPERS)))


def _grid_sums(facts: Facts) -> list[ir.Node]:
    """Returns the sums with a grid that nothing but arithmetic, moves, the choice of boxes and integers are behind."""
    end = set[ir.Node]()
    for node in reversed(facts.graph):
        passes = node.op_type in BOX_STEPS | JOINING_MOVERS | BOX_CHOOSERS or not any(map(holds_floats, node.outputs))
        readers = (use.node for output in node.outputs for use in output.uses())
        if passes and is_standard(node) and all(each in end or each.op_type in SHAPE_READERS for each in readers):
            end.add(node)
    moving = {value for value in facts.graph.inputs if not is_constant(value)}
    found = []
    for node in facts.graph:
        if node in end and node.op_type in ("Add", "Sub") and len(node.inputs) == 2:
            data = [value for value in node.inputs if value in moving]
            grids = [value for value in node.inputs if value is not None and value not in moving]
            if len(data) == len(grids) == 1 and holds_floats(data[0]) and _is_grid(grids[0]):
                found.append(node)
        if node.op_type not in SHAPE_READERS and any(value in moving for value in node.inputs if value is not None):
            moving.update(node.outputs)
    return found


def _is_grid(value: ir.Value) -> bool:
    return value.shape is None or sum(size != 1 for size in value.shape) > 1


def _divisions(facts: Facts) -> list[ir.Node]:
    """Returns the divisions by what is no constant."""
    divisions = (node for node in facts.graph if is_standard(node) and node.op_type == "Div")
    return [node for node in divisions if holds_floats(node.outputs[0]) and not is_constant(node.inputs[_DIVISOR])]


def _is_divisor(reader: ir.Node, index: int) -> bool:
    return reader.op_type != "Div" or index == _DIVISOR or is_constant(reader.inputs[_DIVISOR])


_MASKING = (
    FloatRule("it computes a mask for a Softmax", lambda facts: facts.masks.nodes, formats=_lacks_range),
    FloatRule("it masks scores that are an output of the model", _shown_sums, formats=_lacks_range),
    FloatRule(
        "it gives the NaN or -inf by which a guard finds rows that are masked as a whole",
        lambda facts: nodes_before_guards(facts.graph),
        formats=_lacks_range,
    ),
)
"""What computes a mask that joins scores in front of a Softmax (`quarkfast.graph.attention`), the sum of scores and a
mask that is an output of the model, and what a guard of rows that are masked as a whole looks at
(`quarkfast.graph.attention`), for every type but bfloat16, which holds infinities and numbers as large as float32.
Whatever else stays float reads masks as they were computed, so that a row that is masked as a whole is found to be
so."""

_RULES = (
    # A part of a function that an exporter wrote out (`quarkfast.graph.functions`), whatever the type.
    FloatRule(
        "it is a part of a function that is computed in float", lambda facts: nodes_within_functions(facts.graph)
    ),
    # The Softmax of an attention and what leads to it from the product of queries and keys: scores that differ by less
    # than a step change places, and a mask of -10000 takes every score of its block along.
    FloatRule("so few bits cannot carry scores of attention", _attention),
    # A layer normalization: a few channels of what it reads are tens of times larger than the others, which one scale
    # for all, or for the block around them, reduces to a handful of levels, before they are normalized and matter
    # again.
    FloatRule(
        "so few bits cannot carry what it normalizes",
        lambda facts: filter(_of(NORMALIZATIONS | SUMMED_NORMALIZATIONS), facts.graph),
        formats=_is_narrow,
    ),
    # The sum that one of these reads (the residual stream), and arithmetic with constants whose result nothing else
    # reads.
    FloatRule("so few bits cannot carry its result to what reads it", _residual_stream),
    *_MASKING,
    # Before 1.27 the optimizer of onnxruntime drops the pairs around a Resize where both have the same scale, as powers
    # of two often do. Its cubic kernel then fails in the first run: "Tensor type mismatch". It also moves a pair across
    # a Reshape or the like that stands in front of the Resize.
    FloatRule(
        "onnxruntime before 1.27 has no cubic Resize for codes of 8 bits",
        lambda facts: (node for node in _cubic_resizes(facts) if facts.spec(node).format.bits <= 8),
        back=_of(RUNTIME_DROPPERS),
        unrounded=True,
    ),
    # Transformers for images resize the table of their positions. onnxruntime computes what moves the constant once;
    # behind a pair it does not, moves the Transpose through the Resize instead, and its kernel refuses to make images
    # smaller in that layout ("'Cubic' mode only supports").
    FloatRule(
        "behind a pair onnxruntime would not compute a cubic Resize of a constant once, and in another layout",
        lambda facts: filter(_of_constant, (n for n in _cubic_resizes(facts) if facts.spec(n).format.bits > 8)),
        back=_of(RUNTIME_DROPPERS),
        unrounded=True,
    ),
    # Arithmetic in front of a logarithm or a root, but for bfloat16, and a transform of the inputs in front of it.
    FloatRule(STEEP_REASON, lambda facts: steep_functions(facts.graph, facts.spec_of, facts.is_asked_for)),
    # A detector's last layers give offsets of a few cells, to which it adds the points of a grid, and multiplies the
    # sum by the size of a cell: with eight bits boxes in an image of 960 pixels move by steps of 9 pixels, where the
    # codes of the offsets tell single ones apart. A grid is a constant, or follows from shapes, and differs along two
    # axes, which no bias does. What layers, Sigmoids and Softmaxes give keeps its pair.
    FloatRule(
        "so few bits cannot carry positions on a grid",
        _grid_sums,
        forward=_of(BOX_STEPS | JOINING_MOVERS),
        back=_of(BOX_STEPS | JOINING_MOVERS),
        formats=_is_narrow,
        overrides=False,
    ),
    # A divisor of a few codes is wrong by the same part in all that it divides, and beyond the range that samples
    # showed by any: of a mean over the tokens of a mask by as many times as a text is longer than theirs. A divisor of
    # fewer than half a step is zero. What is divided keeps its pair, as do layers whose results divide.
    FloatRule(
        "so few bits cannot carry what it divides by",
        _divisions,
        back=_of(RANGE_STEPS | JOINING_MOVERS),
        enters=_is_divisor,
        formats=_is_narrow_integer,
        overrides=False,
    ),
    # A recurrent layer reads embeddings below one beside results of convolutions up to hundreds, joined in one tensor
    # and shifted channel by channel. One scale for that in 8 bits leaves a word segmenter 11 dB, and none 29 dB.
    # Nothing computes on these codes, as recurrent layers are float.
    FloatRule(
        "so few bits cannot carry what it joins for a recurrent layer, which is float",
        lambda facts: filter(is_recurrent, facts.graph),
        back=lambda node: node.op_type in JOINED_STEPS | MOVERS and adds_bias(node) is None,
        enters=lambda reader, index: not is_recurrent(reader) or index == 0,
        trimmed=MOVERS,
        keeps_seed=False,
        formats=_is_narrow_integer,
        overrides=False,
    ),
)
"""The rules in order: the first that finds a node says why it stays float. All other matrix products, where the time
goes, are quantized all the same."""


class FloatNodes:
    """The nodes of a graph that stay float although the target has a rule for them."""

    def __init__(
        self, graph: ir.Graph, spec_of: Callable[[str], TensorSpec], is_asked_for: Callable[[ir.Node], bool]
    ) -> None:
        """Applies the rules.

        Args:
            graph: The graph.
            spec_of: Returns the spec that a tensor would have.
            is_asked_for: Whether the user wants a node quantized for which the target may have no rule.
        """
        masks = find_masks(graph)
        self._reasons: dict[ir.Node, str] = {}
        facts = Facts(graph, spec_of, is_asked_for, masks, self._reasons)
        unrounded = set[ir.Node]()
        for rule in _RULES:
            found = rule.nodes(facts)
            unrounded.update(found if rule.unrounded else ())
            for node in found:
                self._reasons.setdefault(node, rule.reason)
        self.unrounded = frozenset(unrounded)
        """What reads its data as it was computed."""
        self.masks = frozenset(value for value in masks.values if _lacks_range(spec_of(name_of(value))))
        """Masks and what they are computed from."""
        self.masked = frozenset(value for value in masks.sums if _lacks_range(spec_of(name_of(value))))
        """Scores that masks have joined."""

    def objection(self, node: ir.Node) -> str:
        """Returns the reason, also that of a node that a rewrite has added to be float; empty if there is none."""
        return self._reasons.get(node) or why_kept_float(node)
