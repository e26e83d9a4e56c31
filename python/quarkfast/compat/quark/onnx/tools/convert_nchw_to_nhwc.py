"""``quark.onnx.tools.convert_nchw_to_nhwc``: images with their channels last."""

from __future__ import annotations

import sys

from quarkfast.compat.quark.onnx.tools.command import command
from quarkfast.tools import to_channels_last

__all__ = ["main"]

main = command(
    "convert_nchw_to_nhwc",
    "Write a model that takes and gives images as NHWC.",
    {
        "input": {"help": "a model of NCHW images"},
        "output": {"help": "where to write"},
    },
    lambda given: to_channels_last(given.input, given.output),
)


if __name__ == "__main__":
    sys.exit(main())
