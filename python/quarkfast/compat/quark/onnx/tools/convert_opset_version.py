"""``quark.onnx.tools.convert_opset_version``: another operator set."""

from __future__ import annotations

import sys

from quarkfast.compat.quark.onnx.tools.command import command
from quarkfast.tools import convert_operator_set

__all__ = ["main"]

main = command(
    "convert_opset_version",
    "Write a model in another operator set.",
    {
        "input": {"help": "a model"},
        "target_opset": {"type": int, "help": "the operator set"},
        "output": {"help": "where to write"},
    },
    lambda given: convert_operator_set(given.input, given.output, given.target_opset),
)


if __name__ == "__main__":
    sys.exit(main())
