"""``quark.onnx.tools.convert_fp16_to_bfp16``: float16 to BFP16."""

from __future__ import annotations

import sys

from quarkfast.compat.quark.onnx.tools.command import EXTERNAL_DATA, command
from quarkfast.tools import to_bfp16

__all__ = ["main"]

main = command(
    "convert_fp16_to_bfp16",
    "Write a float16 model in BFP16.",
    {
        "input": {"help": "a float16 model"},
        "output": {"help": "where to write"},
        **EXTERNAL_DATA,
    },
    lambda given: to_bfp16(given.input, given.output),
)


if __name__ == "__main__":
    sys.exit(main())
