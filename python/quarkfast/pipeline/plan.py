"""What a quantization would do to a model, without doing it: every choice in words, for people and for the metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quarkfast.config import Scheme, TensorSpec
from quarkfast.pipeline.resolve import resolve

if TYPE_CHECKING:
    from quarkfast.graph.load import ModelSource
    from quarkfast.graph.placement import Placement
    from quarkfast.quantization.weight_only.place import WeightPlacement

__all__ = ["ModelPlan", "outline", "outline_weights", "plan"]


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """Every choice about one model that needs no data.

    Attributes:
        scheme: What the preset and the options amount to.
        activations: Tensor that gets a pair of Q and DQ -> its type, or the tensor whose scale it has.
        weights: Constant that is stored in a narrower type -> the type, and where its scales lie.
        biases: Bias -> its type.
        quantized: Name of each quantized node -> its operator type.
        left_float: Name of each node that computes on floats -> why.
        preflight: What keeps an NPU from running the model or a part of it, one sentence each with a remedy.

    Example:
        >>> import quarkfast
        >>> from quarkfast.demo.data import MODEL
        >>> found = quarkfast.plan(MODEL, "A8W8", per_channel=True)
        >>> next(iter(found.weights.values()))
        'int8 for each index of axis 0'
    """

    scheme: Scheme
    activations: Mapping[str, str]
    weights: Mapping[str, str]
    biases: Mapping[str, str]
    quantized: Mapping[str, str]
    left_float: Mapping[str, str]
    preflight: tuple[str, ...] = ()

    def choices(self) -> dict[str, dict[str, str]]:
        """Returns what was decided tensor by tensor and node by node, as plain data."""
        fields = ("activations", "weights", "biases", "quantized", "left_float")
        return {field: dict(getattr(self, field)) for field in fields}

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON."""
        return {"scheme": self.scheme.to_dict(), **self.choices(), "preflight": list(self.preflight)}

    def rows(self) -> list[tuple[str, str]]:
        """Returns what a table of two columns shows."""
        scheme, counts = self.scheme, Counter(self.quantized.values())
        types = f"activations {scheme.activation.dtype}, weights {scheme.weight.dtype}"
        quantized = ", ".join(f"{count} {op_type}" for op_type, count in sorted(counts.items()))
        rows = [
            ("preset", f"{scheme.name} ({types}, placed for {scheme.target})"),
            ("quantized", quantized or "nothing"),
        ]
        for kind, found in (("activation", self.activations), ("weight", self.weights), ("bias", self.biases)):
            rows += [(kind, f"{tensor!r}: {text}") for tensor, text in found.items()]
        rows += [("left float", f"{node!r}: {reason}") for node, reason in self.left_float.items()]
        return rows + [("NPU", finding) for finding in self.preflight]

    def __str__(self) -> str:
        """Returns the rows as lines."""
        return "\n".join(f"{key}: {value}" for key, value in self.rows())


def plan(model: ModelSource, preset: str | Scheme = "A8W8", **options: Any) -> ModelPlan:
    """Says what :func:`quarkfast.quantize` would do with the same arguments; runs nothing and writes nothing.

    Args:
        model: Path of an ONNX file, an ``onnx.ModelProto`` or an ``onnx_ir.Model``; it is not changed.
        preset: Name of a row of :data:`quarkfast.PRESETS`, or a :class:`quarkfast.Scheme`.
        **options: Rows of :data:`quarkfast.OPTIONS` or Quark's keys for them, ``target`` included.

    Raises:
        ConfigError: If the preset or an option does not exist or does not fit.
        ModelError: If the model cannot be read.
        UnsupportedError: If this version cannot do it.

    Example:
        >>> import onnx, quarkfast
        >>> graph = onnx.parser.parse_graph("g (float[1, 4] x) => (float[1, 4] y) { y = Relu(x) }")
        >>> proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
        >>> print(quarkfast.plan(proto))
        preset: A8W8 (activations int8, weights int8, placed for ryzenai-a8w8)
        quantized: 1 Relu
        activation: 'x': int8
        activation: 'y': int8
    """
    from quarkfast.graph.load import load_model
    from quarkfast.pipeline.prepare import prepare, prepare_for_weights
    from quarkfast.quantization import place
    from quarkfast.quantization.weight_only.place import place_weights
    from quarkfast.writers import lowest_opset
    from quarkfast.writers.weight_only.opset import lowest_opset as lowest_opset_of_weights

    scheme, target = resolve(preset, options)
    loaded = load_model(model)
    if scheme.weights_only:
        prepared = prepare_for_weights(loaded, lowest_opset_of_weights(loaded, scheme))
        return outline_weights(place_weights(prepared, scheme), scheme)
    prepared = prepare(loaded, lowest_opset(scheme, target), factors=scheme.factors)
    placement = place(prepared, scheme, target)
    return replace(outline(placement, scheme), preflight=target.preflight(prepared, placement, scheme))


def outline(placement: Placement, scheme: Scheme) -> ModelPlan:
    """Puts a placement of Q/DQ pairs into words."""
    activations = {
        tensor: _in_words(placement.specs[root], None) if root == tensor else f"as {root!r}"
        for tensor, root in placement.activations.items()
    }
    for tensor, (low, high) in placement.fixed.items():
        if tensor in activations:
            activations[tensor] += f", range [{low:g}, {high:g}]"
    return ModelPlan(
        scheme,
        activations,
        {slot.tensor: _in_words(slot.spec, slot.axis) for slot in placement.constants},
        {
            slot.tensor: f"int32, scale of {slot.data!r} times that of {slot.weight_tensor!r}"
            for slot in placement.biases
        },
        dict(placement.quantized),
        {left.node: left.reason for left in placement.left_float},
    )


def outline_weights(placement: WeightPlacement, scheme: Scheme) -> ModelPlan:
    """Puts a placement of stored weights into words."""
    return ModelPlan(
        scheme,
        {},
        {str(weight.value.name): _in_words(scheme.weight, weight.axis) for weight in placement.weights},
        {},
        dict(placement.quantized),
        {left.node: left.reason for left in placement.left_float},
    )


def _in_words(spec: TensorSpec, axis: int | None) -> str:
    words = [spec.dtype if spec.symmetric else f"{spec.dtype} asymmetric"]
    if axis is not None and spec.granularity == "group":
        words.append(f"in groups of {spec.group_size} along axis {axis}")
    elif axis is not None and spec.is_block:
        words.append(f"in blocks along axis {axis}")
    elif axis is not None:
        words.append(f"for each index of axis {axis}")
    if spec.scale == "power_of_two":
        words.append("with powers of two as scales")
    return " ".join(words)
