"""What ONNX Runtime made of the model on the processor that wrote the report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from quarkfast.report.layers import float_table
from quarkfast.report.markup import Markup, decibels, join, milliseconds, table

__all__ = ["latency_section", "verified_section"]


def verified_section(found: Mapping[str, Any] | None) -> Markup | None:
    """Returns a table of facts, and the layers that compute in float by reason; None where nobody looked.

    Args:
        found: `quarkfast.Verification.to_dict`.
    """
    if not found:
        return None
    facts = table("In sessions of ONNX Runtime here", ("what", "result"), list(_facts(found)))
    if not found["float_layers"]:
        return facts
    return join([facts, float_table(found["float_layers"], "Convolutions and products that compute in float here")])


def latency_section(found: Mapping[str, Any] | None, device: str = "") -> Markup | None:
    """Returns how long both models took; None where nobody measured it.

    Args:
        found: `quarkfast.Latency.to_dict`.
        device: What the quantized model is for, where this processor simulates it.
    """
    if not found:
        return None
    rows = [
        ("float model", milliseconds(found["reference_ms"])),
        ("quantized model", milliseconds(found["model_ms"])),
        ("processor", found["processor"]),
        ("session", f"ONNX Runtime {found['runtime']}, default session, {found['threads']} threads"),
        ("rows in a run", str(found["rows"])),
        ("runs of each, in turn", str(found["runs"])),
    ]
    told = f"; a simulation of {device}, which has a speed of its own" if device else ""
    return table(f"Median time of a run on the first sample{told}", ("what", "result"), rows)


def _facts(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "onnxruntime", found["runtime"]
    yield "integer kernels", ", ".join(f"{count} {name}" for name, count in sorted(found["integer"].items())) or "none"
    accuracy, sums, layers = found["accuracy"], found["saturated_sums"], len(found["may_saturate"])
    if accuracy is not None:
        yield f"output {accuracy['output']!r}, exact sums", _ratio(accuracy["exact"])
        yield f"output {accuracy['output']!r}, default session", _ratio(accuracy["default"])
    if layers:
        yield "layers that may saturate without VNNI", str(layers)
    if sums is not None:
        yield "the output with saturation, and without", f"{_ratio(sums['saturated'])}, {_ratio(sums['whole'])}"


def _ratio(value: float | None) -> str:
    return f"{decibels(math.inf if value is None else value)} dB"
