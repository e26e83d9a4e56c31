"""Converters of models: each reads one file and writes another, whole or not at all (docs/convert.md)."""

from quarkfast.tools.converters import (
    BFLOAT16_FORMS,
    Converted,
    change_custom_domain,
    convert_operator_set,
    fix_input_shapes,
    fix_input_values,
    remove_qdq,
    to_bfloat16,
    to_bfp16,
    to_channels_last,
    to_custom_qdq,
    to_float32,
    to_standard_qdq,
)

__all__ = [
    "BFLOAT16_FORMS",
    "Converted",
    "change_custom_domain",
    "convert_operator_set",
    "fix_input_shapes",
    "fix_input_values",
    "remove_qdq",
    "to_bfloat16",
    "to_bfp16",
    "to_channels_last",
    "to_custom_qdq",
    "to_float32",
    "to_standard_qdq",
]
