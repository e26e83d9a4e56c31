"""Plain inference, to compare with: ``python plain.py MODEL.onnx DATA.npz``.

It has onnxruntime and NumPy alone, and runs one row at a time. Rows are read one by one, so that the samples take no
memory; idle threads sleep, so that processor time is work.
"""

from __future__ import annotations

import math
import sys
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime


def rows(archive: zipfile.ZipFile, member: str) -> Iterator[Any]:
    """Yields the rows of an array of an .npz file."""
    with archive.open(member) as stream:
        np.lib.format.read_magic(stream)
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        for _ in range(shape[0]):
            data = stream.read(math.prod(shape[1:]) * dtype.itemsize)
            yield np.frombuffer(data, dtype).reshape(1, *shape[1:])


def main() -> None:
    """Runs the model on all rows."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    with zipfile.ZipFile(sys.argv[2]) as archive:
        names = archive.namelist()
        for feed in zip(*(rows(archive, name) for name in names), strict=True):
            session.run(None, {name.removesuffix(".npy"): row for name, row in zip(names, feed, strict=True)})


if __name__ == "__main__":
    main()
