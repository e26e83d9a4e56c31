"""``quark.onnx.tools.convert_fp32_to_bf16``: float32 to bfloat16."""

from __future__ import annotations

import sys

from quarkfast.compat.quark.onnx.tools.command import EXTERNAL_DATA, command
from quarkfast.tools import to_bfloat16

__all__ = ["main"]

_FORMS = {"with_cast": "cast", "customqdq": "qdq", "bf16": "plain", "simulate_bf16": "rounded"}

main = command(
    "convert_fp32_to_bf16",
    "Write a float32 model in bfloat16.",
    {
        "--input": {"required": True, "help": "a float32 model"},
        "--output": {"required": True, "help": "where to write"},
        "--format": {"default": "with_cast", "choices": _FORMS, "help": "how it is in bfloat16"},
        **EXTERNAL_DATA,
    },
    lambda given: to_bfloat16(given.input, given.output, _FORMS[given.format]),
)


if __name__ == "__main__":
    sys.exit(main())
