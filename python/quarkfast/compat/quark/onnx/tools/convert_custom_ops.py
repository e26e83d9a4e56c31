"""``quark.onnx.tools.convert_custom_ops``: Quark's nodes under their older names, or back."""

from __future__ import annotations

import sys

from quarkfast.compat.quark.onnx.tools.command import command
from quarkfast.tools import change_custom_domain

__all__ = ["main"]

_OLDER, _NEWER = "com.vai.quantize", "com.amd.quark"


def _flag(text: str) -> bool:
    return text.lower() not in ("", "0", "false")


main = command(
    "convert_custom_ops",
    "Give Quark's nodes their older names, or those of today.",
    {
        "--input_model": {"required": True, "help": "a model with Quark's nodes"},
        "--output_model": {"required": True, "help": "where to write"},
        "--external_data": {"dest": "save_as_external_data", "type": _flag, "default": False, "help": "in two files"},
        "--reverse_conversion": {"type": _flag, "default": False, "help": "from older names to those of today"},
    },
    lambda given: change_custom_domain(
        given.input_model, given.output_model, _NEWER if given.reverse_conversion else _OLDER
    ),
)


if __name__ == "__main__":
    sys.exit(main())
