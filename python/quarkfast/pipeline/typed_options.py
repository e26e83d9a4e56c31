"""Options of a quantization as types: editors complete their names, type checkers know their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from quarkfast.config.mixed_precision import MixedPrecision
from quarkfast.config.policy import Policy
from quarkfast.config.rules import BiasKind
from quarkfast.config.scheme import Rotation, Shares, WeightRounding
from quarkfast.targets import Target

__all__ = ["QuantizeOptions"]


class QuantizeOptions(TypedDict, total=False):
    """Options of :func:`quarkfast.quantize` by name, each a row of :data:`quarkfast.OPTIONS`, which says what it does.

    Example:
        >>> import quarkfast
        >>> options = quarkfast.QuantizeOptions(per_channel=True, method="minmse")
        >>> sorted(options)
        ['method', 'per_channel']
    """

    activation_type: str
    weight_type: str
    per_channel: bool
    group_size: Literal[16, 32, 64, 128, 256]
    activation_symmetric: bool
    weight_symmetric: bool
    activation_scaled: bool
    weight_scaled: bool
    reduce_range: bool
    bf16_qdq_to_cast: bool
    bf16_with_clip: bool
    target: str | Target
    bias: BiasKind
    shares: Shares
    keep_float_weights: bool
    packed_weights: bool
    force_pass_through: bool
    fold_batch_norm: bool
    constraints: Mapping[str, bool]
    shapes: str | Mapping[str, Sequence[int]]
    opset: int
    contrib_pairs: bool
    float16_scales: bool
    vaiml: bool
    unshare_constants: list[str] | tuple[str, ...]
    fuse: Sequence[tuple[str, str]]
    equalize: bool
    equalize_options: Mapping[str, Any]
    rotation: Rotation
    smooth_alpha: float
    shift_activations: bool
    align_scales: bool
    search_ranges: bool
    portable: bool
    bias_correction: bool
    output_bias_correction: bool
    rounding: WeightRounding
    rounding_damping: float
    strict: bool
    policy: Mapping[str, Any] | Policy
    op_types: list[str] | tuple[str, ...]
    extra_op_types: list[str] | tuple[str, ...]
    include: list[str] | tuple[str, ...]
    input_nodes: list[str] | tuple[str, ...]
    output_nodes: list[str] | tuple[str, ...]
    exclude: Sequence[str | tuple[Sequence[str], Sequence[str]]]
    exclude_op_types: list[str] | tuple[str, ...]
    exclude_outputs: list[str] | tuple[str, ...]
    exclude_output_types: list[str] | tuple[str, ...]
    layers: Sequence[Mapping[str, Any]]
    tensors: Mapping[str, Mapping[str, Any]]
    mixed_precision: Mapping[str, Any] | MixedPrecision
    samples: int
    batch_size: int
    preprocess: str | Mapping[str, Any]
    method: str
    weight_method: str
    moving_average: bool
    percentile: float
    percentiles: list[float] | tuple[float, ...]
    percentile_metric: str
    scenario: str
    bins: int
    levels: int
    range_symmetric: bool
