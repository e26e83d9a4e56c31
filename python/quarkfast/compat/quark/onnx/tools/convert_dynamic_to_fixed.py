"""``quark.onnx.tools.convert_dynamic_to_fixed``: fixed shapes."""

from __future__ import annotations

import sys

from quarkfast.compat.quark.onnx.tools.command import command, shapes_of
from quarkfast.tools import fix_input_shapes

__all__ = ["main"]

main = command(
    "convert_dynamic_to_fixed",
    "Write a model whose inputs have fixed shapes.",
    {
        "--fix_shapes": {"required": True, "help": "'x:[1,3,224,224];y:[1,10]'"},
        "input_model": {"help": "a model"},
        "output_model": {"help": "where to write"},
    },
    lambda given: fix_input_shapes(given.input_model, given.output_model, shapes_of(given.fix_shapes)),
)


if __name__ == "__main__":
    sys.exit(main())
