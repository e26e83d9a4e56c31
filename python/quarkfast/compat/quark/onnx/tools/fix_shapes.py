"""``quark.onnx.tools.fix_shapes``: fixed shapes."""

from __future__ import annotations

import sys

from quarkfast.compat.quark.onnx.tools.command import EXTERNAL_DATA, command, shapes_of
from quarkfast.tools import fix_input_shapes

__all__ = ["main"]

main = command(
    "fix_shapes",
    "Write a model whose inputs and outputs have fixed shapes.",
    {
        "--input_model_path": {"required": True, "help": "a model"},
        "--output_model_path": {"required": True, "help": "where to write"},
        "--fix_shapes": {"required": True, "help": "'x:[1,3,224,224];y:[1,10]'"},
        **EXTERNAL_DATA,
    },
    lambda given: fix_input_shapes(given.input_model_path, given.output_model_path, shapes_of(given.fix_shapes)),
)


if __name__ == "__main__":
    sys.exit(main())
