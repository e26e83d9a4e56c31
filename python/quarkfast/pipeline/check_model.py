"""Whether a model that is quantized already keeps to the rules of a device, whoever made it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from quarkfast.config import PRESETS, Scheme
from quarkfast.deferred import ir
from quarkfast.graph.access import name_of
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.graph.placement import Placement
from quarkfast.graph.shape_inference import drop_stale_shapes
from quarkfast.graph.subgraphs import nodes_of
from quarkfast.graph.written_codes import codes_of_input, codes_of_output, is_pair
from quarkfast.pipeline.metadata import read_quantized
from quarkfast.targets import Target, find_target
from quarkfast.targets.checks.audits import operator_sets
from quarkfast.targets.checks.finding import Finding
from quarkfast.transforms.clean import lift_constants, sort
from quarkfast.transforms.infer_types import infer_types

__all__ = ["Checked", "check_model"]

_DEVICE = "device"
_RUNTIME = "com.microsoft"


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found.

    Attributes:
        target: Name of the device.
        quantized: Quantized nodes by operator type: as quarkfast counted them, or those that read or write codes.
        findings: What breaks a rule, errors first.
    """

    target: str
    quantized: dict[str, int]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that are errors."""
        return tuple(each for each in self.findings if each.severity == "error")

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON."""
        return {
            "target": self.target,
            "quantized": dict(self.quantized),
            "findings": [each.to_dict() for each in self.findings],
        }


def check_model(model: ModelSource, target: str | Target) -> Checked:
    """Holds a quantized model against every rule of a device.

    Types of codes, kinds of scales, the scale of biases and, for a device that shifts, the shifts of every node are
    errors where they break a rule; what AMD documents or users report of the compiler is a warning: open shapes,
    operators that stay on the CPU, the number of subgraphs. Nothing is run.

    Args:
        model: Path of an ONNX file with QuantizeLinear and DequantizeLinear, of any tool and of any domain, or an
            ``onnx.ModelProto``.
        target: A device by its name (`quarkfast.TARGETS`), or one of your own.

    Raises:
        ConfigError: If there is no such device.
        ModelError: If the model cannot be read.

    Example:
        >>> import quarkfast
        >>> from quarkfast.demo.data import MODEL, load_images
        >>> result = quarkfast.quantize(MODEL, "digits.onnx", "XINT8", {"image": load_images().calibration})
        >>> quarkfast.check_model("digits.onnx", "ryzenai-xint8").errors
        ()
    """
    chosen = target if isinstance(target, Target) else find_target(target)
    loaded = load_model(model)
    sort(loaded)
    lift_constants(loaded)
    drop_stale_shapes(loaded)
    findings = list(operator_sets(loaded))
    for node in nodes_of(loaded.graph):
        if is_pair(node) and node.domain == _RUNTIME:  # which shape inference knows nothing of
            node.domain = ""
    infer_types(loaded)
    quantized = _quantized(loaded)
    findings += (finding for audit in chosen.audits for finding in audit(loaded, chosen))
    placement = Placement({}, {}, {}, (), (), quantized, (), {}, frozenset())
    scheme = _scheme(loaded)
    findings += (Finding(_DEVICE, "warning", "", text) for text in chosen.preflight(loaded, placement, scheme))
    findings.sort(key=lambda each: each.severity)
    return Checked(chosen.name, dict(Counter(quantized.values()).most_common()), tuple(findings))


def _quantized(model: ir.Model) -> dict[str, str]:
    """Returns the names of the quantized nodes -> operator type: as written, or those at codes."""
    names = {name_of(node) for node in nodes_of(model.graph)}
    if written := {name: op_type for name, op_type in read_quantized(model).items() if name in names}:
        return written
    found = {}
    for node in nodes_of(model.graph):
        reads = any(codes_of_input(node, index) is not None for index in range(len(node.inputs)))
        if not is_pair(node) and (reads or codes_of_output(node) is not None):
            found[name_of(node)] = node.op_type
    return found


def _scheme(model: ir.Model) -> Scheme:
    """Returns the preset whose activations have the widest type that is written, for what a device says by type."""
    widths = [
        int(codes.dtype.bitwidth)
        for node in nodes_of(model.graph)
        if not is_pair(node) and (codes := codes_of_output(node)) is not None and codes.dtype is not None
    ]
    if not widths:
        return PRESETS["BF16"]
    return PRESETS["A16W8" if max(widths) > 8 else "A8W8"]
