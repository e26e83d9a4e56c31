"""``quark.onnx.tools.convert_customqdq_to_qdq``: Quark's Q/DQ nodes as ONNX's."""

from __future__ import annotations

import sys

from quarkfast.compat.quark.onnx.tools.command import command
from quarkfast.tools import to_standard_qdq

__all__ = ["main"]

main = command(
    "convert_customqdq_to_qdq",
    "Write Q/DQ nodes of Quark as those of ONNX or ONNX Runtime.",
    {
        "--input_model": {"required": True, "help": "a model with Quark's nodes"},
        "--output_model": {"required": True, "help": "where to write"},
    },
    lambda given: to_standard_qdq(given.input_model, given.output_model),
)


if __name__ == "__main__":
    sys.exit(main())
