"""How runtimes want quantized weights stored: one file for each, found by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from quarkfast.checkpoint.layouts.awq import Awq
from quarkfast.checkpoint.layouts.compressed_tensors import CompressedTensors
from quarkfast.checkpoint.layouts.fp8 import Fp8
from quarkfast.checkpoint.layouts.gptq import Gptq
from quarkfast.checkpoint.layouts.layout import Layout
from quarkfast.checkpoint.layouts.plain import Plain
from quarkfast.checkpoint.layouts.quark import Quark
from quarkfast.checkpoint.schemes import PRESETS, WeightScheme
from quarkfast.errors import ConfigError, did_you_mean

__all__ = ["LAYOUTS", "Layout", "layout_of"]

LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {layout.name: layout for layout in (CompressedTensors(), Quark(), Fp8(), Gptq(), Awq(), Plain())}
)


def layout_of(name: str, scheme: WeightScheme) -> Layout:
    """The layout of a name, which must be able to hold a scheme.

    Raises:
        ConfigError: If there is none of that name, or it cannot.

    Example:
        >>> from quarkfast.checkpoint.schemes import scheme_of
        >>> layout_of("awq", scheme_of("uint4_wo_128")).name
        'awq'
    """
    layout = LAYOUTS.get(name.lower())
    if layout is None:
        known = ", ".join([*LAYOUTS, "gguf"])
        raise ConfigError(f"format: expected one of {known}, got {name!r}{did_you_mean(name, LAYOUTS)}")
    if not layout.accepts(scheme):
        able = ", ".join(preset for preset, row in PRESETS.items() if layout.accepts(row))
        raise ConfigError(f"preset: expected one that {layout.name} has, of {able}, got {scheme.name}")
    return layout
