"""The options of `quarkfast.quantize` are typed as the table of options says."""

from __future__ import annotations

import quarkfast
from quarkfast.config.options import kinds

# What the values of each kind are to a type checker.
TYPES = {
    kinds.BIAS: "BiasKind",
    kinds.BOOL: "bool",
    kinds.COUNT: "int",
    kinds.EXCLUDE: "Sequence[str | tuple[Sequence[str], Sequence[str]]]",
    kinds.GROUP: "Literal[16, 32, 64, 128, 256]",
    kinds.MAPPING: "Mapping[str, Mapping[str, Any]]",
    kinds.METHOD: "str",
    kinds.MIXED: "Mapping[str, Any] | MixedPrecision",
    kinds.NAME: "str",
    kinds.NAMES: "list[str] | tuple[str, ...]",
    kinds.NUMBER: "float",
    kinds.NUMBERS: "list[float] | tuple[float, ...]",
    kinds.PAIRS: "Sequence[tuple[str, str]]",
    kinds.POLICY: "Mapping[str, Any] | Policy",
    kinds.PREPROCESS: "str | Mapping[str, Any]",
    kinds.ROTATION: "Rotation",
    kinds.ROUNDING: "WeightRounding",
    kinds.RULES: "Sequence[Mapping[str, Any]]",
    kinds.SETTINGS: "Mapping[str, Any]",
    kinds.SHAPES: "str | Mapping[str, Sequence[int]]",
    kinds.SHARES: "Shares",
    kinds.SWITCHES: "Mapping[str, bool]",
    kinds.TARGET: "str | Target",
}


def test_every_option_has_the_type_of_its_kind():
    typed = {name: given.__forward_arg__ for name, given in quarkfast.QuantizeOptions.__annotations__.items()}
    assert typed == {name: TYPES[option.kind] for name, option in quarkfast.OPTIONS.items()}


def test_quantize_takes_them():
    assert quarkfast.quantize.__annotations__["options"] == "Unpack[QuantizeOptions]"
