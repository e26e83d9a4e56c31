"""The scheme: everything that decides a quantization apart from the model and the data."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Literal

from quarkfast.config.equalization import read_equalization
from quarkfast.config.mixed_precision import MixedPrecision, read_mixed_precision
from quarkfast.config.policy import POLICY, Policy, read_policy
from quarkfast.config.rules import BiasKind, Change, LayerRule, TensorRule, read_exclude, read_layers, read_tensors
from quarkfast.config.shapes import read_shapes
from quarkfast.config.spec import TensorSpec
from quarkfast.errors import ConfigError, did_you_mean
from quarkfast.formats.block import Rounding

__all__ = ["BiasKind", "Encoding", "Factors", "Scheme", "Shares", "Spelling", "WeightRounding"]

# Fields that plain data leaves out where they are empty.
_LEFT_OUT = (
    *(
        "search_ranges",
        "shift_activations",
        "extra_op_types",
        "input_nodes",
        "output_nodes",
        "exclude_outputs",
        "exclude_output_types",
        "fuse",
    ),
    *("contrib_pairs", "opset", "unshare_constants", "vaiml"),
)

Encoding = Literal["qdq", "cast", "dynamic", "nbits"]
Spelling = Literal[Encoding, "bias", "contrib", "contrib_bias"]
Factors = Literal["useful_octaves", "octaves", "exact"]
Rotation = Literal["none", "hadamard", "random"]
Shares = Literal["pair", "codes", "nothing"]
WeightRounding = Literal["nearest", "descent", "adaround", "adaquant", "gptq"]


@dataclass(frozen=True, slots=True)
class Scheme:
    """One frozen description of a quantization; presets, options and Quark's classes all end here.

    Attributes:
        name: Name of the preset it started from.
        target: Name of a row of `quarkfast.targets.TARGETS`, or of a target of one's own that is passed beside it.
        activation: Form of activations.
        weight: Form of weights.
        bias: ``"int32"`` and ``"int16"`` quantize a bias with scale ``s_x * s_w``; ``"weight"`` treats it like a
            weight; ``"float"`` leaves it; None leaves it to the target.
        encoding: ``"qdq"`` writes QuantizeLinear and DequantizeLinear (custom operators where the standard has no such
            type); ``"cast"`` writes a pair of Casts, for floats of 8 and 16 bits only;
            ``"dynamic"`` quantizes activations while the model runs, in front of integer operators; ``"nbits"`` writes
            onnxruntime's MatMulNBits, for weights of 4 or 8 bits beside float activations only.
        keep_float_weights: Keep weights in float32 with a pair of nodes behind them instead of storing codes.
        shares: What the readers of a tensor share: the ``"pair"``; its ``"codes"``, so that each has a DequantizeLinear
            of its own; or ``"nothing"``, so that each has a pair. Values are the same.
        clip_bfloat16: Put a Clip to +-3.38953139e38 in front of activations that become bfloat16, so that none becomes
            infinite.
        packed_weights: Store weights of block formats packed, with the operator ``quarkfast::DequantizeBlock`` behind
            them, instead of in float32 with Quark's operator behind them; the values are the same.
        block_rounding: Where block formats round a value half way between two codes; float elements of the OCP formats
            always round to even.
        force_pass_through: Quantize data movement (Reshape, MaxPool, ...) also where its input is float, unless floats
            alone read what it moves.
        fold_batch_norm: Fold BatchNormalization, and other steps that multiply and add constants, into layers.
        equalize: Scale channels between layers first, so that weights need fewer bits
            (`quarkfast.algorithms.cross_layer_equalization`); where `smoothed` says so, also those
            that stand out in front of matrix products.
        equalize_options: Settings of that which differ from its own, names and values
            (`quarkfast.config.equalization`).
        rotation: Whether residual streams get another basis (`quarkfast.algorithms.hadamard_rotation`): ``"hadamard"``,
            or ``"random"`` with signs for each channel.
        smooth_alpha: The exponent of SmoothQuant in front of matrix products (`quarkfast.algorithms.smooth_quant`),
            from 0 to 1; None leaves channels there to `equalize`.
        shift_activations: Whether activations lose an offset where that gives symmetric codes smaller scales
            (`quarkfast.algorithms.activation_shifting`).
        portable: For targets on ONNX Runtime's processor kernels, whether weights leave the sums of layers in 16 bits,
            so that processors without VNNI give what others do (`quarkfast.quantization.portable_weights`).
        rounding: How codes of weights are chosen: ``"nearest"`` to the weights, or by ``"descent"``, ``"adaround"``,
            ``"adaquant"`` (both run descent) or ``"gptq"``, so that outputs of layers are nearest
            (`quarkfast.algorithms.weight_rounding`).
        rounding_options: Settings of that which differ from its own, names and values.
        bias_correction: Whether biases make up for what rounded weights add to the mean of a layer's output, where that
            brings outputs closer (`quarkfast.algorithms.bias_correction`); other roundings than to nearest begin there.
        output_bias_correction: Whether biases make up for the mean error of their layers' outputs in the quantized
            model (`quarkfast.algorithms.output_bias_correction`); other roundings than to nearest do so anyway.
        strict: Whether weights and activations keep the type and the granularity of the scheme even where these take
            much from the outputs (`quarkfast.quantization.weight_precision`), and the inputs of activation functions
            the range that the method finds (`quarkfast.quantization.function_inputs`).
        align_scales: Whether tensors are multiplied so that powers of two fit them well
            (`quarkfast.algorithms.scale_alignment`); None does so where `rounding` is not to the nearest.
        search_ranges: Whether ranges of activations are chosen by what they do to the outputs
            (`quarkfast.algorithms.range_search`); None does so where `rounding` is not to the nearest, and else chooses
            between extremes and ranges of least squared error (`quarkfast.algorithms.range_method`).
        constraints: Rules of the target that are on or off otherwise than in itself, by name, in the order of names
            (`quarkfast.targets.switches`).
        fuse: Pairs of operator types between which no pair stands, where nothing else reads what the first computes.
        shapes: Fixed shapes of inputs and outputs, by name.
        opset: The operator set to put the model in; a newer one where the types need that. None keeps the model's own.
        contrib_pairs: Write Q/DQ pairs of 8 and 16 bits in the domain ``com.microsoft``, which has them in any operator
            set.
        vaiml: Write constants as float32 that bfloat16 holds, and round nothing but inputs besides (AMD's VAIML).
        unshare_constants: Operator types whose constants are copied where several nodes read one; ``"*"`` means all.
        op_types: Operator types to quantize; empty means all that the target has a rule for.
        extra_op_types: Operator types to quantize though the target has no rule for them; ``"*"`` means all that
            compute on floats.
        include: Names, globs or regular expressions of the only nodes to quantize; empty means all.
        input_nodes: Names, globs or regular expressions of nodes: what lies in front of them alone stays float.
        output_nodes: The same of nodes behind which all stays float.
        exclude_outputs: Names, globs or regular expressions of nodes whose results get no pair of their own.
        exclude_output_types: Operator types of such nodes.
        exclude: Names, globs or regular expressions (``^...``) of nodes that stay float, and pairs of names (of
            nodes or tensors) between which all nodes stay float.
        exclude_op_types: Operator types that stay float.
        layers: What single layers have of their own, the later winning over the earlier.
        tensors: What single tensors have of their own, winning over `layers`.
        mixed_precision: Which layers may get other types, and how far that may go; None gives all the same.
        samples: Number of calibration samples to read, or None for all of them.
        batch_size: Rows a run, or None for what fits a budget; readers and iterables are fed item by item.
        preprocess: How image files become arrays: name of a recipe, or JSON of settings.
        policy: Every threshold that decides about accuracy.

    Example:
        >>> from quarkfast.config import PRESETS
        >>> PRESETS["A8W8"].weight.dtype
        'int8'
    """

    name: str
    target: str
    activation: TensorSpec
    weight: TensorSpec
    bias: BiasKind | None = "int32"
    encoding: Encoding = "qdq"
    keep_float_weights: bool = False
    shares: Shares = "pair"
    clip_bfloat16: bool = False
    packed_weights: bool = False
    block_rounding: Rounding = "half_even"
    force_pass_through: bool = False
    fold_batch_norm: bool = True
    equalize: bool = False
    equalize_options: tuple[tuple[str, Any], ...] = ()
    rotation: Rotation = "none"
    smooth_alpha: float | None = None
    shift_activations: bool = False
    portable: bool = True
    rounding: WeightRounding = "nearest"
    rounding_options: tuple[tuple[str, Any], ...] = ()
    bias_correction: bool = True
    output_bias_correction: bool = False
    strict: bool = False
    align_scales: bool | None = None
    search_ranges: bool | None = None
    constraints: tuple[tuple[str, bool], ...] = ()
    fuse: tuple[tuple[str, str], ...] = ()
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    opset: int | None = None
    contrib_pairs: bool = False
    vaiml: bool = False
    unshare_constants: tuple[str, ...] = ()
    op_types: tuple[str, ...] = ()
    extra_op_types: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    input_nodes: tuple[str, ...] = ()
    output_nodes: tuple[str, ...] = ()
    exclude_outputs: tuple[str, ...] = ()
    exclude_output_types: tuple[str, ...] = ()
    exclude: tuple[str | tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    exclude_op_types: tuple[str, ...] = ()
    layers: tuple[LayerRule, ...] = ()
    tensors: tuple[TensorRule, ...] = ()
    mixed_precision: MixedPrecision | None = None
    samples: int | None = None
    batch_size: int | None = None
    preprocess: str | None = None
    policy: Policy = POLICY

    @property
    def spelling(self) -> Spelling:
        """How a tensor is written, as `quarkfast.writers.nodes` has it."""
        return "contrib" if self.contrib_pairs and self.encoding == "qdq" else self.encoding

    @property
    def factors(self) -> Factors | None:
        """How equalization rounds its factors, or None without it.

        Not at all where every type is a narrow block; to powers of two otherwise, and where weights have steps, only
        between layers that gain.
        """
        if not self.equalize:
            return None
        if all(spec.is_narrow_block for spec in self.specs()):
            return "exact"
        return "useful_octaves" if self.weight.needs_range else "octaves"

    @property
    def smoothed(self) -> bool:
        """Whether channels that stand out in front of matrix products are made smaller.

        `quarkfast.algorithms.channel_smoothing` does so.

        Only with ``equalize``, where activations are quantized while the model runs and each channel of a weight has a
        scale.
        """
        return self.equalize and self.encoding == "dynamic" and self.weight.granularity == "channel"

    @property
    def splits_outliers(self) -> bool:
        """Whether channels that stand out in front of matrix products are split by what samples show of them.

        `quarkfast.algorithms.outlier_channel_splitting` does so: with ``equalize``, where activations have 8 bits or
        fewer and scales that are known beforehand.
        """
        row = self.activation.format
        if self.smooth_alpha is not None:
            return False
        return self.equalize and self.encoding == "qdq" and row.is_integer and row.bits <= self.policy.narrow_bits

    @property
    def aligned(self) -> bool:
        """Whether tensors are multiplied so that powers of two fit them well.

        What weights gain by it is a matter of luck while their codes are the nearest: errors of rounding add up over
        a sum that hardly varies. Rounding by the outputs of layers takes care of these.
        """
        if self.activation.scale != "power_of_two" or self.encoding != "qdq":
            return False
        return self.rounding != "nearest" if self.align_scales is None else self.align_scales

    @property
    def searches_ranges(self) -> bool:
        """Whether ranges of activations are chosen by what they do to the outputs.

        Codes of 16 bits hold any extremes with steps that are fine enough.
        """
        row = self.activation.format
        if self.encoding != "qdq" or not row.is_integer or row.bits > self.policy.narrow_bits:
            return False
        return self.rounding != "nearest" if self.search_ranges is None else self.search_ranges

    @property
    def codes_biases(self) -> bool:
        """Whether activations and biases are integers with scales that are known beforehand."""
        return self.encoding == "qdq" and self.activation.format.is_integer and self.bias != "float"

    @property
    def has_scales(self) -> bool:
        """Whether activations have scales that are known beforehand."""
        return self.encoding == "qdq" and self.activation.needs_range

    @property
    def stores_codes(self) -> bool:
        """Whether weights have integer codes, and activations no scales that are known beforehand."""
        return (self.weights_only or self.encoding == "dynamic") and self.weight.format.is_integer

    @property
    def weights_only(self) -> bool:
        """Whether activations stay as they are, so that weights alone are stored in a narrower type."""
        return self.activation.stays_float

    @property
    def own_operators(self) -> bool:
        """Whether no QuantizeLinear, DequantizeLinear or Cast of the standard is written: blocks, MatMulNBits."""
        return self.encoding == "nbits" or all(spec.is_block for spec in self.specs())

    def to_dict(self) -> dict[str, Any]:
        """Returns the scheme as plain data, for JSON; :meth:`from_dict` makes it again."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        options, mixed = plain.pop("rounding_options"), plain.pop("mixed_precision")
        equalization = plain.pop("equalize_options")
        constraints, folded = plain.pop("constraints"), plain.pop("fold_batch_norm")
        shares, shapes = plain.pop("shares"), plain.pop("shapes")
        added, rotation = {key: plain.pop(key) for key in _LEFT_OUT}, plain.pop("rotation")
        smooth_alpha, policy = plain.pop("smooth_alpha"), plain.pop("policy").changes()
        return (
            plain
            | ({"rounding_options": dict(options)} if options else {})
            | ({"equalize_options": dict(equalization)} if equalization else {})
            | {key: value for key, value in added.items() if value}
            | ({} if shares == "pair" else {"shares": shares})
            | ({} if rotation == "none" else {"rotation": rotation})
            | ({} if smooth_alpha is None else {"smooth_alpha": smooth_alpha})
            | ({"policy": policy} if policy else {})
            | ({} if folded else {"fold_batch_norm": False})
            | ({"constraints": dict(constraints)} if constraints else {})
            | ({"shapes": {name: list(shape) for name, shape in shapes}} if shapes else {})
            | ({"mixed_precision": mixed.to_plain()} if mixed is not None else {})
            | {
                "activation": asdict(self.activation),
                "weight": asdict(self.weight),
                "exclude": [item if isinstance(item, str) else [list(end) for end in item] for item in self.exclude],
                "layers": [rule.to_plain() for rule in self.layers],
                "tensors": {rule.tensor: rule.to_plain() for rule in self.tensors},
            }
        )

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Scheme:
        """Makes a scheme of what :meth:`to_dict` gives, also when it went through JSON or YAML.

        Raises:
            ConfigError: If a field is unknown or missing, or has a value of the wrong kind.

        Example:
            >>> from quarkfast.config import PRESETS
            >>> Scheme.from_dict(PRESETS["XINT8"].to_dict()) == PRESETS["XINT8"]
            True
        """
        known = tuple(field.name for field in fields(cls))
        for key in plain:
            if key not in known:
                raise ConfigError(f"Scheme: expected known fields, got {key!r}{did_you_mean(key, known)}")
        missing = [field.name for field in fields(cls) if field.default is MISSING and field.name not in plain]
        if missing:
            raise ConfigError(f"Scheme: expected {', '.join(missing)}, got none")
        given: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()
        }
        for key in ("activation", "weight"):
            spec = Change.of(plain[key], f"Scheme: {key}")
            given[key] = TensorSpec(**dict(spec.values))
        if "rounding_options" in plain:
            options = dict(plain["rounding_options"]).items()
            given["rounding_options"] = tuple((key, tuple(v) if isinstance(v, list) else v) for key, v in options)
        if "equalize_options" in plain:
            given["equalize_options"] = read_equalization(dict(plain["equalize_options"]))
        if "fuse" in plain:
            given["fuse"] = tuple((first, second) for first, second in plain["fuse"])
        if "constraints" in plain:
            given["constraints"] = tuple(sorted(dict(plain["constraints"]).items()))
        if "shapes" in plain:
            given["shapes"] = read_shapes(plain["shapes"])
        if plain.get("mixed_precision") is not None:
            given["mixed_precision"] = read_mixed_precision(plain["mixed_precision"])
        given["policy"] = read_policy(plain.get("policy", {}))
        given["exclude"] = read_exclude(plain.get("exclude", ()))
        given["layers"] = read_layers(plain.get("layers", ()))
        given["tensors"] = read_tensors(plain.get("tensors", {}))
        return cls(**given)

    @property
    def float16_scales(self) -> bool:
        """Whether the model stays in float16, its scales included."""
        return "half" in (self.activation.scale, self.weight.scale)

    def specs(self) -> tuple[TensorSpec, ...]:
        """Returns the form of every kind of tensor: the two for all, and those of single layers and tensors."""
        return (*self.specs_of_activations(), *self.specs_of_weights())

    def specs_of_activations(self, constants: Container[str] = ()) -> tuple[TensorSpec, ...]:
        """Returns the form of every kind of activation; rules for tensors may be meant for one but for `constants`."""
        found = [self.activation]
        for rule in self._layer_rules():
            found += [change.apply(self.activation) for change in (rule.activation, rule.output) if change is not None]
        return (*found, *(own.change.apply(self.activation) for own in self.tensors if own.tensor not in constants))

    def specs_of_weights(self) -> tuple[TensorSpec, ...]:
        """Returns the form of every kind of weight."""
        found = [rule.weight.apply(self.weight) for rule in self._layer_rules() if rule.weight is not None]
        return (self.weight, *found, *(own.change.apply(self.weight) for own in self.tensors))

    def _layer_rules(self) -> tuple[LayerRule, ...]:
        return (*self.layers, *(self.mixed_precision.forms if self.mixed_precision is not None else ()))
