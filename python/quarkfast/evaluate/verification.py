"""What ONNX Runtime makes of a quantized model: integer kernels, and layers that it leaves in float, with reasons."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx

from quarkfast import ort
from quarkfast.evaluate.accuracy import Accuracy, measure
from quarkfast.evaluate.divergence import Divergence, compare
from quarkfast.evaluate.partial_model import Feed
from quarkfast.evaluate.saturated_sums import SaturatedSums, simulate
from quarkfast.evaluate.saturation import may_saturate
from quarkfast.graph.load import ModelSource
from quarkfast.graph.operators import FLOAT_LAYERS
from quarkfast.graph.placement import Reduction
from quarkfast.graph.save import file_or_bytes

__all__ = ["FloatLayer", "Verification", "verify"]

_INTEGER = frozenset(
    {
        "ConvInteger", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat",
        "MatMulNBits", "QAttention", "QGemm",
    }
)  # fmt: skip
_UINT8 = int(onnx.TensorProto.UINT8)
_BYTES = frozenset({int(onnx.TensorProto.INT8), _UINT8})


@dataclass(frozen=True, slots=True)
class FloatLayer:
    """A convolution or product that computes on floats, and why."""

    name: str
    op_type: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What ONNX Runtime's optimizer made of a model on CPUs.

    Attributes:
        integer: Operator type -> number of nodes that compute on integer codes.
        float_layers: Convolutions and matrix products that compute on floats.
        may_saturate: Names of layers of uint8 and int8 codes whose sums may saturate on x86 processors without VNNI.
        runtime: Version of onnxruntime.
        divergence: How far outputs in a default session and with exact sums lie apart; None without feeds.
        accuracy: How close both come to the float model; None without feeds and a reference.
        saturated_sums: What saturation would cost; None where nothing may saturate, or without feeds and a reference.
        reductions: What weights lost so that sums fit 16 bits, as the model tells; None if it was not made so.
    """

    integer: Mapping[str, int]
    float_layers: tuple[FloatLayer, ...]
    runtime: str
    may_saturate: tuple[str, ...] = ()
    divergence: Divergence | None = None
    accuracy: Accuracy | None = None
    saturated_sums: SaturatedSums | None = None
    reductions: tuple[Reduction, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON."""
        layers = [{"name": each.name, "op_type": each.op_type, "reason": each.reason} for each in self.float_layers]
        return {
            "integer": dict(self.integer),
            "float_layers": layers,
            "runtime": self.runtime,
            "may_saturate": list(self.may_saturate),
            "divergence": None if self.divergence is None else self.divergence.to_dict(),
            "accuracy": None if self.accuracy is None else self.accuracy.to_dict(),
            "saturated_sums": None if self.saturated_sums is None else self.saturated_sums.to_dict(),
            "reductions": None if self.reductions is None else [each.to_plain() for each in self.reductions],
        }

    def rows(self) -> list[tuple[str, str]]:
        """Returns what a table of two columns shows."""
        counts = ", ".join(f"{count} {op_type}" for op_type, count in sorted(self.integer.items()))
        rows = [("integer kernels", f"{counts or 'none'} (onnxruntime {self.runtime})")]
        rows += [("computes in float", f"{e.op_type} {e.name!r}: {e.reason}") for e in self.float_layers]
        if self.accuracy is not None:
            rows.append(("accuracy", str(self.accuracy)))
        if self.divergence is not None:
            rows.append(("default or exact sums", str(self.divergence)))
        if self.reductions:
            rows.append(("keeps sums in 16 bits", ", ".join(map(str, self.reductions))))
        if self.may_saturate:
            rows.append(("may saturate", self._saturation()))
        return rows

    def _saturation(self) -> str:
        count, sums = len(self.may_saturate), self.saturated_sums
        text = f"{count} layer{'s' * (count > 1)} on x86 processors without VNNI"
        if sums is not None:
            text += f": {sums.saturated:.1f} dB there, {sums.whole:.1f} dB elsewhere"
        if self.reductions is not None:
            return f"{text}; only where activations reach further than a tenth beyond what samples showed"
        return f"{text}; portable avoids it in models for CPUs, and no graph optimizations in all"


def verify(
    model: ModelSource | bytes,
    feeds: Sequence[Feed] = (),
    reference: ModelSource | bytes | None = None,
) -> Verification:
    """Opens a model in ONNX Runtime with all its optimizations and reports what computes on integers.

    Args:
        model: A quantized model: a path, bytes, an ``onnx.ModelProto`` or an ``onnx_ir.Model``.
        feeds: Arrays by the names of its inputs. With them it is run in a default session and with exact sums.
        reference: The float model. With it and feeds, both are compared with it, and layers that may saturate are
            simulated, if the quantized model lies in one file.

    Raises:
        ModelError: ONNX Runtime does not take a model or a feed.
        DependencyError: onnxruntime is missing or too old.

    Example:
        >>> import quarkfast
        >>> from quarkfast.demo.data import MODEL, load_images
        >>> result = quarkfast.quantize(MODEL, preset="U8S8", calibration_data=load_images().calibration)
        >>> verify(result.model_bytes).float_layers
        ()
    """
    model = file_or_bytes(model)
    with tempfile.TemporaryDirectory(prefix="quarkfast-verify-") as folder:
        path = Path(folder, "optimized.onnx")
        options = ort.session_options()
        options.optimized_model_filepath = str(path)
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "optimized.data")
        ort.inference_session(model, options)
        graph = onnx.load(path, load_external_data=False).graph
        proto, outside = _loaded(model)
        beside = Path() if isinstance(model, bytes) else Path(model).parent
        saturating = tuple(may_saturate(graph, proto.graph, Path(folder), beside))
    counts = Counter(node.op_type for node in graph.node if _is_integer(node))
    layers = tuple(_Reader(graph).float_layers())
    found = Verification(dict(counts), layers, ort.runtime_version(), saturating, reductions=_reductions(proto))
    if not feeds:
        return found
    found = replace(found, divergence=compare(proto, feeds, outside))
    if not reference:
        return found
    reference = file_or_bytes(reference)
    sums = simulate(proto, saturating, feeds, reference) if saturating and outside is None else None
    return replace(found, accuracy=measure(proto, feeds, reference, outside), saturated_sums=sums)


def _reductions(model: onnx.ModelProto) -> tuple[Reduction, ...] | None:
    """Returns what the metadata of a model says about its weights."""
    reductions = next((entry.value for entry in model.metadata_props if entry.key == "quarkfast.portable"), None)
    if reductions is None:
        return None
    try:
        ratios = [(str(each["node"]), each["before"], each["after"]) for each in json.loads(reductions)]
        return tuple(
            Reduction(node, *(math.inf if ratio is None else float(ratio) for ratio in ends)) for node, *ends in ratios
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):  # others may write there what they like
        return None


def _loaded(model: str | os.PathLike[str] | bytes) -> tuple[onnx.ModelProto, Path | None]:
    """Returns a model and, where constants lie in other files, the folder that they are looked for in."""
    if isinstance(model, bytes):
        return onnx.load_model_from_string(model), None
    proto = onnx.load(os.fspath(model), load_external_data=False)
    outside = any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in proto.graph.initializer)
    return proto, Path(model).resolve().parent if outside else None


def _is_integer(node: onnx.NodeProto) -> bool:
    return node.op_type.startswith("QLinear") or node.op_type in _INTEGER


class _Reader:
    """Reads the reasons out of an optimized graph."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._graph = graph
        self._types = {tensor.name: tensor.data_type for tensor in graph.initializer}
        self._producers = {name: node for node in graph.node for name in node.output}
        self._readers: dict[str, list[str]] = {output.name: ["the caller"] for output in graph.output}
        for node in graph.node:
            for name in node.input:
                self._readers.setdefault(name, []).append(node.op_type)

    def float_layers(self) -> list[FloatLayer]:
        return [FloatLayer(n.name, n.op_type, self._why(n)) for n in self._graph.node if n.op_type in FLOAT_LAYERS]

    def _why(self, node: onnx.NodeProto) -> str:
        if node.op_type == "ConvTranspose":
            return "onnxruntime has no integer ConvTranspose"
        for name, what in zip(node.input[:2], ("first input", "second input"), strict=False):
            source = self._producers.get(name)
            if source is None or source.op_type != "DequantizeLinear":
                return f"its {what} {name!r} is float"
            code = self._code_type(source)
            if code not in _BYTES:
                return f"onnxruntime has no kernel for codes of {onnx.TensorProto.DataType.Name(code).lower()}"
        for attribute in node.attribute:
            if attribute.name == "activation" and attribute.s:
                return (
                    f"{attribute.s.decode()} stands between it and QuantizeLinear, whose zero point does not replace it"
                )
        others = sorted({reader for reader in self._readers.get(node.output[0], []) if reader != "QuantizeLinear"})
        if others:
            return f"its output is read by {', '.join(others)}, not by QuantizeLinear alone"
        return "onnxruntime has no kernel for this combination of types"

    def _code_type(self, decoder: onnx.NodeProto) -> int:
        """Element type of the codes that a DequantizeLinear reads: its zero point's, or the constant's; else uint8."""
        for name in (*decoder.input[2:3], decoder.input[0]):
            if name in self._types:
                return int(self._types[name])
        return _UINT8
