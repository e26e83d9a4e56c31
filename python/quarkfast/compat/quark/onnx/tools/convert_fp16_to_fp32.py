"""``quark.onnx.tools.convert_fp16_to_fp32``: float16 to float32."""

from __future__ import annotations

import sys

from quarkfast.compat.quark.onnx.tools.command import EXTERNAL_DATA, command
from quarkfast.tools import to_float32

__all__ = ["main"]

main = command(
    "convert_fp16_to_fp32",
    "Write a float16 model in float32.",
    {
        "--input": {"required": True, "help": "a float16 model"},
        "--output": {"required": True, "help": "where to write"},
        **EXTERNAL_DATA,
    },
    lambda given: to_float32(given.input, given.output),
)


if __name__ == "__main__":
    sys.exit(main())
