"""What a quantization did: counts, what stayed float and why, sizes, seconds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from quarkfast.errors import printable
from quarkfast.wording import counted, counts_by_type, first_names

if TYPE_CHECKING:
    from quarkfast.graph.placement import Reduction
    from quarkfast.pipeline.wide_bytes import WideShares
    from quarkfast.quantization import Records

__all__ = ["FloatNode", "LeverResult", "Summary", "by_reason", "pareto_front"]

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class FloatNode:
    """A node that computes on floats, and why it was left alone."""

    name: str
    op_type: str
    reason: str


@dataclass(frozen=True, slots=True)
class LeverResult:
    """What one lever of a quality target, or one choice of layers, cost and brought.

    Attributes:
        lever: What was done beyond the levers that were kept before it.
        seconds: Wall time.
        bytes: Size of the model.
        sqnr: Of the worst output on the samples held apart, in dB, with exact sums.
        kept: Whether it stayed.
        metric: The user's metric, with exact sums; None without one.
        logits: As `sqnr`, of the worst of what Softmax and Sigmoid make outputs of; None where they make none.
        assured: What a quality target is held against: the worst of both with two standard errors taken off, since few
            samples judge; None with mixed precision.
    """

    lever: str
    seconds: float
    bytes: int
    sqnr: float
    kept: bool
    metric: float | None = None
    logits: float | None = None
    assured: float | None = None

    def __str__(self) -> str:
        """Returns one line."""
        metric = "" if self.metric is None else f"metric {self.metric:.6g}, "
        end = "" if self.kept else ", not kept"
        logits = "" if self.logits is None else f" (logits {self.logits:.1f})"
        assured = "" if self.assured is None else f", {self.assured:.1f} assured"
        ratios = f"{self.sqnr:.1f} dB{logits}{assured}"
        return f"{self.lever}: {metric}{ratios}, {self.bytes:,} bytes, {self.seconds:.1f} s{end}"

    @property
    def quality(self) -> tuple[float, float]:
        """What is more for a better model: the metric where there is one, then the ratio, of logits if it is less."""
        worst = self.sqnr if self.logits is None else min(self.sqnr, self.logits)
        return (0.0 if self.metric is None else self.metric), worst


def pareto_front(levers: Sequence[LeverResult]) -> tuple[LeverResult, ...]:
    """Returns what was tried but for what something else of as few bytes is better than, the smallest first.

    Example:
        >>> small, large = LeverResult("a", 1.0, 100, 20.0, True), LeverResult("b", 1.0, 200, 19.0, False)
        >>> [each.lever for each in pareto_front([large, small])]
        ['a']
    """
    front: list[LeverResult] = []
    for each in sorted(levers, key=lambda lever: (lever.bytes, *(-part for part in lever.quality))):
        if not front or each.quality > front[-1].quality:
            front.append(each)
    return tuple(front)


@dataclass(frozen=True, slots=True)
class Summary:
    """A report of one quantization.

    Attributes:
        preset: Name of the preset.
        target: Name of the target.
        activation: Type of activations.
        weight: Type of weights.
        quantized: Operator type -> number of nodes that were quantized.
        left_float: The nodes that were not.
        pairs: Number of Q/DQ pairs behind activations.
        weights: Number of constants stored as codes (biases apart).
        biases: Number of biases stored as int32.
        samples: Number of calibration samples (rows of the first input).
        opset: Version of the standard operators in the result.
        bytes_before: Size of the model before, external data included.
        bytes_after: And after.
        seconds: Stage -> wall time in seconds, in the order they ran.
        notes: What was done differently from what was asked, one sentence each.
        constant: Activations that had one value in all of the calibration.
        saturated: Activations of which less than half of the range that was seen is kept.
        worst: The tensors with the least expected signal to quantization noise, in dB, the worst first: weights, and
            activations where the method gathers histograms.
        outputs: The float outputs with the ratio of signal to quantization noise that they have on the first sample, in
            dB, the worst first; both models are run with exact sums. Empty without samples, with random ones, and
            where a model takes more than one file.
        preflight: What keeps an NPU from running the model or a part of it, one sentence each with a remedy.
        reductions: What the weights of layers lost so that their sums fit 16 bits.
        levers: With a quality target or ``mixed_precision``, what was tried, in this order.
        judged: With a quality target, how many samples held apart its levers were judged on.
        above_8_bits: With a quality target, what part of the bytes of activations and of weights has more than 8 bits.
        records: Every node and every quantized tensor, for the page that `QuantizedModel.write_report` writes; no part
            of the plain data.
        opset_before: Version of the standard operators in the float model; 0 if it is not known.
        speed: For 8-bit models that ONNX Runtime's processor kernels run, what they gain on this processor.

    Example:
        >>> s = Summary("A8W8", "ryzenai-a8w8", "int8", "int8", {"Conv": 2}, (), 3, 2, 2, 8, 13, 1000, 300, {}, ())
        >>> print(s.rows()[0])
        ('preset', 'A8W8 (activations int8, weights int8, placed for ryzenai-a8w8)')
    """

    preset: str
    target: str
    activation: str
    weight: str
    quantized: Mapping[str, int]
    left_float: tuple[FloatNode, ...]
    pairs: int
    weights: int
    biases: int
    samples: int
    opset: int
    bytes_before: int
    bytes_after: int
    seconds: Mapping[str, float]
    notes: tuple[str, ...]
    constant: tuple[str, ...] = ()
    saturated: tuple[str, ...] = ()
    worst: tuple[tuple[str, float], ...] = ()
    outputs: tuple[tuple[str, float], ...] = ()
    preflight: tuple[str, ...] = ()
    reductions: tuple[Reduction, ...] = ()
    levers: tuple[LeverResult, ...] = ()
    judged: int = 0
    above_8_bits: WideShares | None = None
    records: Records | None = field(default=None, repr=False)
    opset_before: int = 0
    speed: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON, which has no infinity: None stands for it."""
        outputs = [(name, value if math.isfinite(value) else None) for name, value in self.outputs]
        ratios = ("sqnr", "logits", "assured")
        levers = [asdict(each) | {name: _finite(getattr(each, name)) for name in ratios} for each in self.levers]
        plain: dict[str, Any] = {"outputs": outputs, "levers": levers}
        if levers:
            plain["pareto_front"] = [each.lever for each in pareto_front(self.levers)]
        if self.above_8_bits is not None:
            plain["above_8_bits"] = self.above_8_bits._asdict()
        found = asdict(replace(self, records=None)) | plain
        del found["records"]
        return found | {"quantized": dict(self.quantized), "seconds": dict(self.seconds)}

    def rows(self) -> list[tuple[str, str]]:
        """Returns what a table of two columns shows."""
        ratio = f", {self.bytes_before / self.bytes_after:.2f} times smaller" if self.bytes_after else ""
        types = f"activations {self.activation}, weights {self.weight}"
        raised = f", raised from {self.opset_before}" if 0 < self.opset_before < self.opset else ""
        rows = [
            ("preset", f"{self.preset} ({types}, placed for {self.target})"),
            ("quantized", counts_by_type(self.quantized)),
            ("stored as codes", f"{self.weights} weights, {self.biases} biases; {self.pairs} Q/DQ pairs"),
            ("opset", f"{self.opset}{raised}"),
            *((("calibrated on", f"{self.samples} samples"),) if self.samples else ()),
            ("bytes", f"{self.bytes_before:,} -> {self.bytes_after:,}{ratio}"),
            ("seconds", ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in self.seconds.items())),
        ]
        rows += [("left float", text) for text in by_reason(self.left_float)]
        if self.constant:
            rows.append(("constant", ", ".join(map(repr, self.constant))))
        if self.saturated:
            rows.append(("saturated", ", ".join(map(repr, self.saturated))))
        if self.worst:
            rows.append(
                ("expected SQNR", ", ".join(f"{name!r} {round(value, 1) + 0.0:.1f} dB" for name, value in self.worst))
            )
        if self.outputs:
            shown = ", ".join(f"{name!r} {value:.1f} dB" for name, value in self.outputs[:_SHOWN])
            rows.append(("measured SQNR", f"{shown} (outputs on the first sample, exact sums)"))
        if self.reductions:
            rows.append(("portable", _reduced(self.reductions)))
        rows += [("lever", str(each)) for each in self.levers]
        if self.judged:
            rows.append(("judged on", _judged(self.judged)))
        if self.above_8_bits is not None:
            rows.append(("above 8 bits", str(self.above_8_bits)))
        if self.speed:
            rows.append(("this processor", self.speed))
        rows += [("NPU", finding) for finding in self.preflight]
        return rows + [("note", note) for note in self.notes]

    def paragraph(self) -> str:
        """Returns what counts in one paragraph.

        Example:
            >>> s = Summary("A8W8", "ryzenai-a8w8", "int8", "int8", {"Conv": 2}, (), 3, 2, 2, 8, 13, 1000, 300, {}, ())
            >>> s.paragraph()
            'A8W8 for ryzenai-a8w8; 2 nodes quantized, 0 left float; 1,000 -> 300 bytes'
        """
        parts = [
            f"{self.preset} for {self.target}",
            f"{counted(sum(self.quantized.values()), 'node')} quantized, {len(self.left_float)} left float",
            f"{self.bytes_before:,} -> {self.bytes_after:,} bytes",
        ]
        if self.outputs:
            name, value = self.outputs[0]
            parts.append(f"worst output {name!r} {value:.1f} dB on the first sample")
        if self.notes:
            parts.append(counted(len(self.notes), "note"))
        return "; ".join(parts)

    def __repr__(self) -> str:
        """Returns one short paragraph; printing shows all rows."""
        return printable(f"Summary: {self.paragraph()}")

    def __str__(self) -> str:
        """Returns the rows as lines."""
        return "\n".join(printable(f"{key}: {value}") for key, value in self.rows())


def _judged(count: int) -> str:
    if count == 1:
        return "1 sample held apart, which says nothing of others"
    return f"{count} samples held apart; assured are two standard errors less"


def _reduced(found: Sequence[Reduction]) -> str:
    """Returns how many layers gave way, and the five that lost most."""
    worst = sorted(found, key=lambda each: each.after - each.before)[:5]
    named = ", ".join(map(str, worst)) + (", ..." if len(found) > len(worst) else "")
    return f"weights of {counted(len(found), 'layer')} keep sums in 16 bits, expected SQNR {named}"


def by_reason(nodes: Iterable[FloatNode]) -> list[str]:
    """Returns one sentence for all nodes with one reason, operators that a target has no rule for being one."""
    found: dict[str, list[FloatNode]] = {}
    for node in nodes:
        found.setdefault(node.reason.removesuffix(f" has no rule for {node.op_type}"), []).append(node)
    return [f"{_counted(alike)}: {_reason(alike)}" for alike in found.values()]


def _counted(nodes: Sequence[FloatNode]) -> str:
    """Returns how many there are of each operator, most first, and the names of three."""
    counts = Counter(node.op_type for node in nodes)
    if len(nodes) == 1:
        return f"{nodes[0].op_type} {nodes[0].name!r}"
    operators = ", ".join(f"{count} {op_type}" for op_type, count in counts.most_common())
    return f"{operators} ({first_names(node.name for node in nodes)})"


def _reason(nodes: Sequence[FloatNode]) -> str:
    reasons = {node.reason for node in nodes}
    return nodes[0].reason if len(reasons) == 1 else nodes[0].reason.removesuffix(nodes[0].op_type) + "them"


def _finite(value: float | None) -> float | None:
    """Returns a number that JSON can carry."""
    return value if value is not None and math.isfinite(value) else None
