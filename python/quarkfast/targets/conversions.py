"""Rewrites of the float model that targets want in front of calibration, by the names that turn them on and off."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from quarkfast.deferred import ir
from quarkfast.transforms.convert_batch_norm import convert_batch_norm
from quarkfast.transforms.convert_reduce_mean import convert_reduce_mean
from quarkfast.transforms.convert_split import convert_split
from quarkfast.transforms.split_large_pools import split_large_pools

__all__ = ["CONVERSIONS", "Conversion"]

_Rewrite: TypeAlias = "Callable[[ir.Model], bool]"


class Conversion(NamedTuple):
    """One rewrite of operators into others.

    Attributes:
        name: What turns it on and off.
        op_type: The operator that it looks for.
        becomes: The operator that it writes.
        transform: Rewrites a model in place, and returns whether it changed it. Tensors keep names, and values but for
            rounding, so that statistics of the one model hold for the other.

    Example:
        >>> CONVERSIONS["split_to_slice"].becomes
        'Slice'
    """

    name: str
    op_type: str
    becomes: str
    transform: _Rewrite

    def applies(self, wanted: Collection[str], excluded: Collection[str]) -> bool:
        """Whether operators that are quantized alone, or stay float, are so before and after alike."""
        if self.op_type in excluded or self.becomes in excluded:
            return False
        return not wanted or {self.op_type, self.becomes} <= set(wanted)


_ROWS = (
    Conversion("batch_norm_to_conv", "BatchNormalization", "Conv", convert_batch_norm),
    Conversion("reduce_mean_to_pool", "ReduceMean", "GlobalAveragePool", convert_reduce_mean),
    Conversion("split_large_pools", "GlobalAveragePool", "AveragePool", split_large_pools),
    Conversion("split_to_slice", "Split", "Slice", convert_split),
)

CONVERSIONS: Mapping[str, Conversion] = MappingProxyType({row.name: row for row in _ROWS})
"""Name -> conversion, in the order in which they run. Quark does all of them for every NPU."""
