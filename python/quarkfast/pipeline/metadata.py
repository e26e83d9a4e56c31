"""What a quantized model says about its making: no time and no path, and which tool made one by another's names."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal

from quarkfast._version import version
from quarkfast.deferred import ir
from quarkfast.graph.operators import QUANTIZERS
from quarkfast.pipeline.model_plan import ModelPlan

if TYPE_CHECKING:
    from quarkfast.deferred import ir
    from quarkfast.graph.placement import Reduction

__all__ = [
    "quantized_by",
    "read_changes",
    "read_equalized",
    "read_quantized",
    "write_changes",
    "write_equalized",
    "write_metadata",
]

Change = Literal["factors", "offsets"]

# The packages whose code decides what a model becomes. onnxruntime decides activations, which the hash stands for.
_PACKAGES = ("numpy", "onnx", "onnx-ir", "onnxscript")


def write_metadata(
    model: ir.Model, plan: ModelPlan, seen: Mapping[str, Sequence[float]], reductions: Sequence[Reduction] | None = None
) -> None:
    """Writes into the metadata of `model` what made it.

    ``quarkfast.scheme`` and ``quarkfast.plan`` are JSON: what was asked for, and what was decided for each tensor and
    node. ``quarkfast.versions`` is JSON: version by package. ``quarkfast.calibration_sha256`` is the hash of everything
    that calibration saw in each tensor, where there was a calibration. ``quarkfast.portable`` is JSON: the layers whose
    weights gave way so that their sums fit 16 bits, where they did so or did not have to.

    Args:
        model: Changed in place.
        plan: What was decided.
        seen: What calibration saw, by tensor; empty where it was not needed.
        reductions: What weights lost so that sums fit 16 bits; None where they need not.
    """
    versions = {name: metadata.version(name) for name in _PACKAGES}
    model.producer_name = "quarkfast"
    model.producer_version = version()
    model.metadata_props["quarkfast.scheme"] = json.dumps(plan.scheme.to_dict(), sort_keys=True)
    model.metadata_props["quarkfast.plan"] = json.dumps(plan.choices())
    model.metadata_props["quarkfast.versions"] = json.dumps({"quarkfast": version(), **versions})
    if reductions is not None:
        model.metadata_props["quarkfast.portable"] = json.dumps([each.to_plain() for each in reductions])
    if seen:
        text = json.dumps([(name, *map(str, seen[name])) for name in sorted(seen)])
        model.metadata_props["quarkfast.calibration_sha256"] = hashlib.sha256(text.encode()).hexdigest()


def write_changes(model: ir.Model, change: Change, numbers: Mapping[str, float]) -> None:
    """Writes into the metadata of `model` what its tensors have lost, or are multiplied by, as JSON.

    Args:
        model: Changed in place.
        change: ``"offsets"`` for ``quarkfast.offsets``, ``"factors"`` for ``quarkfast.factors``.
        numbers: By tensor.
    """
    model.metadata_props[f"quarkfast.{change}"] = json.dumps(dict(numbers))


def read_changes(model: ir.Model, change: Change) -> dict[str, float]:
    """Returns what :func:`write_changes` wrote; nothing of metadata that are something else.

    Example:
        >>> import onnx_ir as ir
        >>> model = ir.from_onnx_text('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) '
        ...                           '{ y = Relu (x) }')
        >>> write_changes(model, "offsets", {"y": 1.5})
        >>> read_changes(model, "offsets"), read_changes(model, "factors")
        ({'y': 1.5}, {})
    """
    found = _read(model, change)
    pairs = found.items() if isinstance(found, dict) else ()
    return {name: float(each) for name, each in pairs if isinstance(each, int | float) and math.isfinite(each)}


def write_equalized(model: ir.Model, names: Sequence[str]) -> None:
    """Writes into the metadata of `model`, as ``quarkfast.equalized``, which tensors have multiplied channels."""
    model.metadata_props["quarkfast.equalized"] = json.dumps(list(names))


def read_equalized(model: ir.Model) -> frozenset[str]:
    """Returns what :func:`write_equalized` wrote; nothing of metadata that are something else.

    Example:
        >>> import onnx_ir as ir
        >>> model = ir.from_onnx_text('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) '
        ...                           '{ y = Relu (x) }')
        >>> write_equalized(model, ["y"])
        >>> read_equalized(model)
        frozenset({'y'})
        >>> model.metadata_props["quarkfast.equalized"] = "{"
        >>> read_equalized(model)
        frozenset()
    """
    found = _read(model, "equalized")
    return frozenset(each for each in found if isinstance(each, str)) if isinstance(found, list) else frozenset()


def read_quantized(model: ir.Model) -> dict[str, str]:
    """Returns the nodes that ``quarkfast.plan`` calls quantized -> operator type; none of metadata that differ in form.

    Example:
        >>> import onnx_ir as ir
        >>> model = ir.from_onnx_text('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) '
        ...                           '{ y = Relu (x) }')
        >>> model.metadata_props["quarkfast.plan"] = '{"quantized": {"n": "Relu"}}'
        >>> read_quantized(model)
        {'n': 'Relu'}
    """
    plan = _read(model, "plan")
    found = plan.get("quantized") if isinstance(plan, dict) else None
    pairs = found.items() if isinstance(found, dict) else ()
    return {name: op_type for name, op_type in pairs if isinstance(op_type, str)}


def _read(model: ir.Model, key: str) -> Any:
    """Returns what JSON there is; None for none, and for what is no JSON."""
    try:
        return json.loads(model.metadata_props.get(f"quarkfast.{key}", "null"))
    except (ValueError, RecursionError):
        return None


_PRODUCERS = {
    "quarkfast": "quarkfast",
    "quark.onnx": "AMD Quark",
    "onnx.quantize": "onnxruntime.quantization",
}
# NNCF 3.4 and onnxsim 0.8 leave the producer as it was. Seen in their models of ResNet-20.
_NAMES = {
    "NNCF": re.compile(r"QuantizeLinear_.+_\d+"),
    "onnxsim": re.compile(r".+/Q"),
    "onnxruntime.quantization": re.compile(r".+_QuantizeLinear"),
}


def quantized_by(model: ir.Model, nodes: Iterable[ir.Node]) -> str | None:
    """Returns the tool that quantized `model`, and how that is known; None where it is not."""
    if model.producer_name in _PRODUCERS:
        return f"{_PRODUCERS[model.producer_name]} {model.producer_version or ''}".rstrip()
    names = [node.name or "" for node in nodes if node.op_type in QUANTIZERS]
    for tool, pattern in _NAMES.items():
        if names and all(pattern.fullmatch(name) for name in names):
            return f"{tool}, to judge by the names of its nodes"
    return None
