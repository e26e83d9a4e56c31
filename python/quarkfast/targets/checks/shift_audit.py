"""Whether the scales of a quantized model are what an accelerator without multipliers for scales can shift between."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from quarkfast.deferred import ir
from quarkfast.graph.access import array_of, is_standard, name_of
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.graph.written_codes import Codes, codes_of_input, codes_of_output, is_pair, reads_floats
from quarkfast.targets.checks.finding import Finding, Takes
from quarkfast.targets.constraints.shift_rules import MOVES, RULES

__all__ = ["fixed_points", "shifts"]

# The mantissa of a power of two, as np.frexp gives it.
_HALF = 0.5


def fixed_points(model: ir.Model, target: Takes) -> Iterator[Finding]:
    """Yields a finding for each tensor whose scales are several, no powers of two, or beside a zero point."""
    for node, codes in _all_codes(model):
        values = codes.scale.astype(np.float64)
        if values.size != 1:
            yield _error("per-tensor", node, f"{codes.tensor!r}: expected one scale, got {values.size}")
        if (np.frexp(values)[0] != _HALF).any():
            got = f"{values.ravel()[0]:.9g}"
            yield _error("power-of-two", node, f"{codes.tensor!r}: expected a power of two as scale, got {got}")
        if codes.zero_point is not None and not np.isin(codes.zero_point, _middles(codes)).all():
            got = f"{codes.zero_point.ravel()[0]:g}"
            expected = " or ".join(map(str, _middles(codes)))
            yield _error("zero-point", node, f"{codes.tensor!r}: expected {expected} as zero point, got {got}")


def shifts(model: ir.Model, target: Takes) -> Iterator[Finding]:
    """Yields a finding for each scale that the rules of `quarkfast.targets.constraints.shift_rules` would move."""
    for node in nodes_of(model.graph):
        for rule, names in (*RULES, MOVES):
            if is_standard(node) and node.op_type in names:
                written = _WrittenPositions()
                rule(node, written)
                for place, found, wanted in written.moves:
                    text = f"{place}: expected the position {wanted} (a scale of 2^{-wanted}), got {found}"
                    yield _error(names[node.op_type].replace("_", "-"), node, text)


class _WrittenPositions:
    """Positions as they are written, for a rule that would move them: what it moves is what breaks it."""

    gates: Collection[str] = ("HardSigmoid",)

    def __init__(self) -> None:
        self.moves: list[tuple[str, int, int]] = []

    def of_input(self, node: ir.Node, index: int) -> int | None:
        return _position(codes_of_input(node, index))

    def of_output(self, node: ir.Node) -> int | None:
        return _position(codes_of_output(node))

    def is_zero(self, node: ir.Node, index: int) -> bool:
        codes = codes_of_input(node, index)
        return codes is not None and codes.values is not None and not array_of(codes.values).any()

    def move_input(self, node: ir.Node, index: int, position: int) -> None:
        found = self.of_input(node, index)
        if found is not None and found != position:
            self.moves.append((f"input {index}, {name_of(node.inputs[index])!r}", found, position))

    def move_output(self, node: ir.Node, position: int) -> None:
        found = self.of_output(node)
        if found is not None and found != position:
            self.moves.append((f"output {name_of(node.outputs[0])!r}", found, position))


def _all_codes(model: ir.Model) -> Iterator[tuple[ir.Node, Codes]]:
    """Yields each tensor of codes once, with a node that reads or writes it and no float beside it."""
    seen: set[str] = set()
    for node in nodes_of(model.graph):
        if is_pair(node) or reads_floats(node):
            continue
        for codes in (*(codes_of_input(node, index) for index in range(len(node.inputs))), codes_of_output(node)):
            if codes is not None and codes.tensor not in seen:
                seen.add(codes.tensor)
                yield node, codes


def _middles(codes: Codes) -> list[int]:
    """Returns the zero points that need no sum: 0, and the middle of unsigned codes, which turns the sign bit."""
    unsigned = codes.dtype is not None and codes.dtype.is_integer() and not codes.dtype.is_signed()
    return [0, 1 << (int(codes.dtype.bitwidth) - 1)] if codes.dtype is not None and unsigned else [0]


def _position(codes: Codes | None) -> int | None:
    """Returns the number of bits behind the point; None for codes that `fixed_points` finds fault with."""
    if codes is None or codes.scale.size != 1:
        return None
    mantissa, exponent = np.frexp(float(codes.scale.item()))
    return 1 - int(exponent) if mantissa == _HALF else None


def _error(rule: str, node: ir.Node, text: str) -> Finding:
    return Finding(rule, "error", name_of(node), text)
