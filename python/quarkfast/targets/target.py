"""The target: what a device wants of a quantized model, as one frozen object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from quarkfast.config import BiasKind, ScaleKind, Scheme, TensorSpec, default_bias
from quarkfast.deferred import ir
from quarkfast.errors import ConfigError, UnsupportedError, did_you_mean
from quarkfast.graph.placement import Placement, Quantizers
from quarkfast.targets.checks.finding import Audit
from quarkfast.targets.conversions import Conversion, Simulation
from quarkfast.targets.rules import Rule

__all__ = ["Check", "Constraint", "Switch", "Target", "Transform"]

Transform: TypeAlias = "Callable[[ir.Model], None]"
"""Rewrites a prepared model in place and keeps its values."""

Constraint: TypeAlias = "Callable[[ir.Model, Quantizers], Quantizers]"
"""Returns the quantizers with scales that the device can work with."""

Check: TypeAlias = "Callable[[ir.Model, Placement, Scheme], Iterable[str]]"
"""Yields what keeps the device from running a placed model, one sentence each with a remedy."""


Switch: TypeAlias = "Callable[[Target, bool], Target]"
"""Returns a target with one of its rules on or off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Everything that a device wants; pass one of your own as ``target=`` to quantize for another device.

    Attributes:
        name: How schemes, summaries and the metadata of results refer to it.
        rules: Operator type -> its rule; an operator of another domain is ``"domain::type"``. One without a rule stays
            float.
        fused: Activation function -> the operators that compute it along, so that no Q/DQ pair stands between the two.
        constants: Whose spec a constant operand of an elementwise operator takes (the ``b`` of ``x + b``): that of
            activations or of weights. Where the result has 16 bits and weights have fewer, it is that of the result,
            unless the scheme is strict.
        dynamic: Whether activations get their scale while the model runs, so that only weights are placed.
        operands_only: Whether only the operands of the operators with a rule are quantized. What these compute is then
            float, and other readers of an operand read it as it was computed.
        bias: What becomes of biases, whatever the types; None decides by the types of both operands
            (`quarkfast.config.default_bias`).
        activation_types: The types that the model's activations may have; empty means all. Rules for single layers and
            tensors may name others.
        weight_types: The same for weights.
        alternative: The preset to use for other types.
        scales: The kinds of scales that activations and weights may have; empty means all.
        per_channel: Whether each output channel of a weight may have a scale.
        lowest_opset: The oldest operator set that the device takes; older models are converted.
        highest_opset: The newest one; None means any.
        one_scale: Operator types of the standard whose inputs and output have one scale in the end, by a constraint.
        one_range: Operator types of the standard whose inputs take the range of their output, before scales are
            computed.
        conversions: Rewrites of the float model in front of calibration and placement, in order.
        transforms: Rewrites of the prepared model that the device needs, in order.
        constraints: What limits scales once they are computed, in order.
        simulations: What the device computes otherwise than ONNX, written into the result, in order.
        switches: What the option ``constraints`` may turn on or off, by name: a function of the target and of whether
            it is on that returns the target so.
        checks: What keeps the device from running a model, in the order of the report.
        audits: What breaks a rule in a model that is quantized already, by whatever tool (`quarkfast.check_model`).
        cpu_kernels: Whether ONNX Runtime's processor kernels run the result. Residual sums are then kept from being
            fused, and with ``portable`` weights leave sums of products in 16 bits.

    Raises:
        ConfigError: If a field is none of the words it may be, or a rule is none.

    Example:
        >>> from quarkfast.targets import TARGETS
        >>> TARGETS["ryzenai-xint8"].per_channel, TARGETS["ort-cpu"].cpu_kernels
        (False, True)
    """

    name: str
    rules: Mapping[str, Rule]
    fused: Mapping[str, frozenset[str]] = field(default_factory=dict)
    constants: Literal["activation", "weight"] = "weight"
    dynamic: bool = False
    operands_only: bool = False
    bias: BiasKind | None = None
    activation_types: tuple[str, ...] = ()
    weight_types: tuple[str, ...] = ()
    alternative: str = ""
    scales: tuple[ScaleKind, ...] = ()
    per_channel: bool = True
    lowest_opset: int = 1
    highest_opset: int | None = None
    one_scale: frozenset[str] = frozenset()
    one_range: frozenset[str] = frozenset()
    conversions: tuple[Conversion, ...] = ()
    transforms: tuple[Transform, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    simulations: tuple[Simulation, ...] = ()
    switches: Mapping[str, Switch] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    audits: tuple[Audit, ...] = ()
    cpu_kernels: bool = False

    def __post_init__(self) -> None:
        """Refuses words that mean nothing.

        Raises:
            ConfigError: If a field is none of its words, or a rule is none.
        """
        for name, given, words in (
            ("constants", (self.constants,), ("activation", "weight")),
            ("bias", () if self.bias is None else (self.bias,), get_args(BiasKind)),
            ("scales", self.scales, get_args(ScaleKind)),
        ):
            for word in given:
                if word not in words:
                    raise ConfigError(f"Target: {name}: expected {' or '.join(words)}, got {word!r}")
        for op_type, rule in self.rules.items():
            if not isinstance(rule, Rule):
                raise ConfigError(f"Target: rules: {op_type}: expected a Rule, got {type(rule).__name__}")

    def bias_of(self, scheme: Scheme) -> BiasKind:
        """Returns what becomes of biases under `scheme`, where neither its preset nor its user says so."""
        if self.bias is not None:
            return self.bias
        return default_bias(scheme.activation, scheme.weight)

    def check_scheme(self, scheme: Scheme) -> None:
        """Makes sure that the device takes the types and scales of `scheme`.

        Raises:
            ConfigError: If it does not.
        """
        activation, weight = scheme.activation, scheme.weight
        if self.dynamic != (scheme.encoding == "dynamic"):
            kind = "static" if self.dynamic else "dynamic"
            raise ConfigError(f"target: expected one for {kind} quantization beside {scheme.name}, got {self.name}")
        if not self.per_channel and weight.granularity == "channel":
            unit = "shift" if "power_of_two" in (activation.scale, weight.scale) else "scale"
            raise ConfigError(
                f"per_channel: expected False for {scheme.name}, got True; its target has one {unit} a tensor"
            )
        sides = ("activations", activation.dtype, self.activation_types), ("weights", weight.dtype, self.weight_types)
        if any(types and dtype not in types for _, dtype, types in sides):
            expected = " and ".join(f"{' or '.join(types)} {what}" for what, _, types in sides if types)
            remedy = f"; use {self.alternative}" if self.alternative else ""
            got = ", ".join(f"{what} {dtype}" for what, dtype, _ in sides)
            raise ConfigError(f"{scheme.name}: expected {expected}, got {got}{remedy}")
        for spec in (activation, weight):
            if self.scales and spec.needs_range and spec.scale not in self.scales:
                raise ConfigError(
                    f"{scheme.name}: expected {' or '.join(self.scales)} scales for {self.name}, got {spec.scale}"
                )

    def takes_weights(self, spec: TensorSpec) -> bool:
        """Whether the device takes weights of another form than those of a scheme that it takes."""
        channels = self.per_channel or spec.granularity != "channel"
        return channels and (not self.weight_types or spec.dtype in self.weight_types)

    def check_opset(self, version: int) -> None:
        """Makes sure that the device takes models of an operator set.

        Raises:
            UnsupportedError: If it is newer than `highest_opset`.
        """
        if self.highest_opset is not None and version > self.highest_opset:
            raise UnsupportedError(
                f"model: expected opset {self.highest_opset} or older for {self.name}, got {version} with the types "
                "asked for; export it in an older one, or use types that need none newer"
            )

    def with_constraints(self, given: Iterable[tuple[str, bool]]) -> Target:
        """Returns the target with rules of its own turned on or off.

        Raises:
            ConfigError: If it has none of a name.

        Example:
            >>> from quarkfast.targets import TARGETS
            >>> TARGETS["ryzenai-a8w8"].with_constraints([("concat", True)]).one_range
            frozenset({'Concat'})
        """
        target = self
        for name, on in given:
            if name not in self.switches:
                known = ", ".join(self.switches) or "none"
                raise ConfigError(
                    f"constraints: expected {known} for {self.name}, got {name!r}{did_you_mean(name, self.switches)}"
                )
            target = self.switches[name](target, on)
        return target

    def refine(self, model: ir.Model, quantizers: Quantizers) -> Quantizers:
        """Rewrites `model` as the device needs it, in place, and returns scales that it can work with."""
        for transform in self.transforms:
            transform(model)
        for constraint in self.constraints:
            quantizers = constraint(model, quantizers)
        return quantizers

    def preflight(self, model: ir.Model, placement: Placement, scheme: Scheme) -> tuple[str, ...]:
        """Returns what keeps the device from running a prepared model or a part of it.

        Args:
            model: The prepared model, before insertion.
            placement: Where its pairs go.
            scheme: The types, on which some limits depend.
        """
        return tuple(sentence for check in self.checks for sentence in check(model, placement, scheme))
