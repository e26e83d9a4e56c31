"""``quark.onnx.tools.convert_quant_to_float``: a float model of a quantized one."""

from __future__ import annotations

import sys

from quarkfast.compat.quark.onnx.tools.command import command
from quarkfast.tools import remove_qdq

__all__ = ["main"]

main = command(
    "convert_quant_to_float",
    "Write a quantized model as a float one.",
    {
        "input": {"help": "a quantized model"},
        "output": {"help": "where to write"},
    },
    lambda given: remove_qdq(given.input, given.output),
)


if __name__ == "__main__":
    sys.exit(main())
