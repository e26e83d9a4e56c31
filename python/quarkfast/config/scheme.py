"""Everything that decides a quantization apart from the model and the data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from quarkfast.block_formats import Rounding
from quarkfast.config.spec import TensorSpec

__all__ = ["BiasKind", "Encoding", "Scheme"]

BiasKind = Literal["int32", "weight", "float"]
Encoding = Literal["qdq", "cast", "dynamic", "nbits"]


@dataclass(frozen=True, slots=True)
class Scheme:
    """One frozen description of a quantization; presets, options and Quark's classes all end here.

    Attributes:
        name: Name of the preset it started from.
        target: Name of the placement rule table, a row of `quarkfast.qdq.targets`.
        activation: Form of activations.
        weight: Form of weights.
        bias: ``"int32"`` quantizes a bias with scale ``s_x * s_w``; ``"weight"`` treats it like a weight;
            ``"float"`` leaves it.
        encoding: ``"qdq"`` writes QuantizeLinear and DequantizeLinear (custom operators where the standard has no such
            type); ``"cast"`` writes a pair of Casts, for floats of 8 and 16 bits only;
            ``"dynamic"`` quantizes activations as they come, in front of integer operators; ``"nbits"`` writes
            onnxruntime's MatMulNBits, for 4-bit weights beside float activations only.
        keep_float_weights: Keep weights in float32 with a pair of nodes behind them instead of storing codes.
        clip_bfloat16: Put a Clip to +-3.38953139e38 in front of activations that become bfloat16, so that none becomes
            infinite.
        packed_weights: Store weights of block formats packed, with the operator ``quarkfast::DequantizeBlock`` behind
            them, instead of in float32 with Quark's operator behind them; the values are the same.
        block_rounding: Where block formats round a value half way between two codes; float elements of the OCP formats
            always round to even.
        force_pass_through: Quantize data movement (Reshape, MaxPool, ...) also where its input is float.
        op_types: Operator types to quantize; empty means all that the target has a rule for.
        include: Names, globs or regular expressions of the only nodes to quantize; empty means all.
        exclude: Names, globs or regular expressions (``^...``) of nodes that stay float.
        exclude_op_types: Operator types that stay float.
        samples: Number of calibration samples to read, or None for all of them.
        batch_size: Rows a run, or None for 32 from files and arrays, and readers and iterables as they come.
        preprocess: How image files become arrays: ``"imagenet"``, ``"cifar"``, ``"yolo"`` or ``"none"``.

    Example:
        >>> from quarkfast.config import PRESETS
        >>> PRESETS["A8W8"].weight.dtype
        'int8'
    """

    name: str
    target: str
    activation: TensorSpec
    weight: TensorSpec
    bias: BiasKind = "int32"
    encoding: Encoding = "qdq"
    keep_float_weights: bool = False
    clip_bfloat16: bool = False
    packed_weights: bool = False
    block_rounding: Rounding = "half_even"
    force_pass_through: bool = False
    op_types: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    exclude_op_types: tuple[str, ...] = ()
    samples: int | None = None
    batch_size: int | None = None
    preprocess: str | None = None

    @property
    def weights_only(self) -> bool:
        """Whether activations stay as they are, so that weights alone are stored in a narrower type."""
        return self.activation.dtype == "float32"

    def to_dict(self) -> dict[str, Any]:
        """Returns the scheme as plain data, for JSON."""
        return asdict(self)
