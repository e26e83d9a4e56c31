"""Embedding tables in 8 bits: a scale for each column, and codes that turn float behind the lookup."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from quarkfast import kernels
from quarkfast.config import Policy, Scheme
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_constant, name_of, rank_of
from quarkfast.graph.opset import opset_version
from quarkfast.graph.selection import Choices
from quarkfast.graph.written_codes import table_behind, takes_rows
from quarkfast.quantization.eligibility import Eligibility, count_infinities, moves_to_floats
from quarkfast.ranges.decibels import ratio_of
from quarkfast.targets import Target

__all__ = ["COLUMNS", "LookupTables", "find_tables", "takes_tables"]

COLUMNS = 1
"""The axis of a table that has a scale for each of its elements; rows are looked up along the other."""

# DequantizeLinear has an axis from this operator set on.
_OPSET = 13


class LookupTables(NamedTuple):
    """What the lookups in the tables of a graph are.

    Attributes:
        lookups: Gather and Slice nodes that take rows of codes, which turn float behind them.
        moves: Nodes behind these that move the floats on to nothing but nodes that compute in float.
    """

    lookups: frozenset[ir.Node] = frozenset()
    moves: frozenset[ir.Node] = frozenset()


def takes_tables(model: ir.Model, scheme: Scheme, target: Target) -> bool:
    """Whether tables have a form of their own: where activations and weights have integers of 8 bits.

    Not where the scheme is kept as its name says, weights stay floats in the file, or the device takes no scale for
    each channel.
    """
    if scheme.encoding != "qdq" or scheme.strict or scheme.keep_float_weights or target.operands_only:
        return False
    narrow = all(spec.format.is_integer and spec.format.bits == 8 for spec in (scheme.activation, scheme.weight))
    return narrow and target.takes_weights(scheme.weight.per_channel()) and opset_version(model) >= _OPSET


def find_tables(graph: ir.Graph, scheme: Scheme, choices: Choices, nodes: Eligibility) -> LookupTables:
    """Returns the lookups whose tables get a scale for each column.

    One scale for a table leaves the small columns of it few codes: word embeddings of a sentence encoder have 27 dB by
    one scale and 39 dB by one for each column, its position embeddings 15 and 39 dB.

    1. A table is a float32 matrix of at least 16 rows that nothing reads but Gather along its rows, and Slice that
       leaves its columns whole.
    2. Where what moves data is quantized whatever is in front of it (`force_pass_through`), and codes would go on to
       what computes on codes, the table keeps the scale of activations.
    3. What moves rows on to what computes in float moves floats, also behind a table that has codes already.
    4. Where such a table would stay float otherwise, it does where codes leave it less than 25 dB.
    """
    lookups, moves = set[ir.Node](), set[ir.Node]()
    for value in graph.initializers.values():
        readers = [node for node, index in value.uses() if index == 0 and takes_rows(node)]
        if not readers or len(readers) < len(value.uses()) or not _is_table(value, scheme):
            continue
        if not all(_may_be_coded(node, scheme, choices, nodes) for node in readers):
            continue
        if scheme.force_pass_through:
            behind = [moves_to_floats(node.outputs[0], choices, nodes) for node in readers]
            if any(each is None for each in behind):
                continue
            moves.update(node for each in behind if each is not None for node in each)
        elif not _is_precise(value, scheme.policy):
            continue
        lookups.update(readers)
    for node in graph if scheme.force_pass_through else ():
        if table_behind(node) is not None:
            moves.update(moves_to_floats(node.outputs[0], choices, nodes) or ())
    return LookupTables(frozenset(lookups), frozenset(moves))


def _is_table(value: ir.Value, scheme: Scheme) -> bool:
    if value.dtype != ir.DataType.FLOAT or not is_constant(value) or rank_of(value) != 2:
        return False
    if any(rule.tensor == name_of(value) for rule in scheme.tensors):
        return False
    rows, columns = array_of(value).shape
    return rows >= scheme.policy.table_rows and columns > 0 and not count_infinities(value)


def _may_be_coded(node: ir.Node, scheme: Scheme, choices: Choices, nodes: Eligibility) -> bool:
    """Whether neither the target nor the user has another form for a table and its rows."""
    table, rows = name_of(node.inputs[0]), node.outputs[0]
    same = choices.weight(node, table) == scheme.weight and not choices.is_changed(name_of(rows))
    return same and not nodes.objection(node) and not rows.is_graph_output()


def _is_precise(table: ir.Value, policy: Policy) -> bool:
    """Whether the noise of even rounding is small beside all rows but the largest hundredth, which make it large."""
    values = array_of(table)
    low, high = kernels.extremes(values, channel_axis=COLUMNS)
    steps = np.maximum(-low.astype(np.float64), high) / 127
    power = np.sort(np.einsum("ij,ij->i", values, values, dtype=np.float64))
    usual = power[: -math.ceil(len(power) / 100)].mean()
    return float(np.square(steps).sum()) / 12 <= ratio_of(-policy.table_sqnr) * float(usual)
