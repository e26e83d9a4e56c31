"""Every choice about a model that needs no data, in words: for people, and for the metadata."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quarkfast.config import Scheme, TensorSpec
from quarkfast.errors import printable
from quarkfast.pipeline.summary import FloatNode, by_reason
from quarkfast.wording import counted, counts_by_type

if TYPE_CHECKING:
    from quarkfast.graph.placement import Placement
    from quarkfast.quantization.weight_only import WeightPlacement

__all__ = ["ModelPlan", "describe", "describe_weights"]


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """Every choice about one model that needs no data.

    Attributes:
        scheme: What the preset and the options amount to.
        activations: Tensor that gets a pair of Q and DQ -> its type, or the tensor whose scale it has.
        weights: Constant that is stored in a narrower type -> the type, and where its scales lie.
        biases: Bias -> its type.
        quantized: Name of each quantized node -> its operator type.
        float_nodes: The nodes that compute on floats, and why.
        preflight: What keeps an NPU from running the model or a part of it, one sentence each with a remedy.
        recipe: Names of the steps that a quantization runs, in order.

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
    float_nodes: tuple[FloatNode, ...]
    preflight: tuple[str, ...] = ()
    recipe: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Returns one line; printing shows all rows."""
        nodes = f"{counted(len(self.quantized), 'node')} quantized, {len(self.float_nodes)} left float"
        return f"ModelPlan: {self.scheme.name} for {self.scheme.target}; {nodes}"

    @property
    def left_float(self) -> dict[str, str]:
        """Name of each node that computes on floats -> why."""
        return {node.name: node.reason for node in self.float_nodes}

    def choices(self) -> dict[str, dict[str, str]]:
        """Returns what was decided tensor by tensor and node by node, as plain data."""
        fields = ("activations", "weights", "biases", "quantized", "left_float")
        return {field: dict(getattr(self, field)) for field in fields}

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON."""
        found = {"scheme": self.scheme.to_dict(), **self.choices()}
        return found | {"preflight": list(self.preflight), "recipe": list(self.recipe)}

    def rows(self, *, every: bool = False) -> list[tuple[str, str]]:
        """Returns what a table of two columns shows: groups, or with `every` each tensor and node."""
        scheme = self.scheme
        types = f"activations {scheme.activation.dtype}, weights {scheme.weight.dtype}"
        rows = [
            ("preset", f"{scheme.name} ({types}, placed for {scheme.target})"),
            ("quantized", counts_by_type(Counter(self.quantized.values()))),
        ]
        kinds = {"activation": self.activations, "weight": self.weights, "bias": self.biases}
        if every:
            rows += [(kind, f"{tensor!r}: {text}") for kind, found in kinds.items() for tensor, text in found.items()]
            rows += [("left float", f"{node!r}: {reason}") for node, reason in self.left_float.items()]
        else:
            rows += [(_PLURALS[kind], _in_groups(found.values())) for kind, found in kinds.items() if found]
            rows += [("left float", text) for text in by_reason(self.float_nodes)]
        rows.append(("recipe", ", ".join(self.recipe) if every else counted(len(self.recipe), "step")))
        return rows + [("NPU", finding) for finding in self.preflight]

    def __str__(self) -> str:
        """Returns the rows as lines."""
        return "\n".join(printable(f"{key}: {value}") for key, value in self.rows())


_PLURALS = {"activation": "activations", "weight": "weights", "bias": "biases"}


def _in_groups(texts: Iterable[str]) -> str:
    """Returns how many tensors there are, and of each form how many, those that share the scale of another as one."""
    forms = Counter(re.sub(r"^as '.*'|, range \[.*\]$|, scale of '.*", "", text) for text in texts)
    shared = forms.pop("", 0)
    parts = [f"{count} {form}" for form, count in forms.most_common()]
    return ", ".join(parts + [f"{counted(shared, 'tensor')} with the scale of another"] * bool(shared))


def describe(placement: Placement, scheme: Scheme) -> ModelPlan:
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
        tuple(FloatNode(*left) for left in placement.left_float),
    )


def describe_weights(placement: WeightPlacement, scheme: Scheme) -> ModelPlan:
    """Puts a placement of stored weights into words."""
    weights = dict[str, str]()
    for weight in placement.weights:
        name, form = str(weight.value.name), _in_words(weight.spec, weight.axis if weight.has_codes else None)
        weights[name] = f"{weights[name]}, for Gather {form}" if name in weights else form
    return ModelPlan(
        scheme,
        {},
        weights,
        {},
        dict(placement.quantized),
        tuple(FloatNode(*left) for left in placement.left_float),
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
    elif spec.scale == "dyadic":
        words.append("with numbers of 16 bits over powers of two as scales")
    elif spec.scale == "half":
        words.append("with float16 scales")
    return " ".join(words)
