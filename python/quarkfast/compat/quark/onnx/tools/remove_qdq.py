"""``quark.onnx.tools.remove_qdq``: a model without Q/DQ pairs."""

from __future__ import annotations

import sys

from quarkfast.compat.quark.onnx.tools.command import command
from quarkfast.tools import remove_qdq

__all__ = ["main"]

main = command(
    "remove_qdq",
    "Write a quantized model without its Q/DQ pairs.",
    {
        "--input_model": {"required": True, "help": "a quantized model"},
        "--output_model": {"required": True, "help": "where to write"},
    },
    lambda given: remove_qdq(given.input_model, given.output_model),
)


if __name__ == "__main__":
    sys.exit(main())
