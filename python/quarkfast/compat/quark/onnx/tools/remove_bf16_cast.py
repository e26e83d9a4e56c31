"""``quark.onnx.tools.remove_bf16_cast``: a model without Casts to bfloat16 and back."""

from __future__ import annotations

import sys

from quarkfast.compat.quark.onnx.tools.command import EXTERNAL_DATA, command
from quarkfast.tools import remove_qdq

__all__ = ["main"]

main = command(
    "remove_bf16_cast",
    "Write a model in bfloat16 without the Casts around tensors.",
    {
        "input_model_path": {"help": "a model with Casts to bfloat16 and back"},
        "output_model_path": {"help": "where to write"},
        **EXTERNAL_DATA,
    },
    lambda given: remove_qdq(given.input_model_path, given.output_model_path),
)


if __name__ == "__main__":
    sys.exit(main())
