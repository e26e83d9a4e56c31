"""The two models that reconstruction goes through side by side."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import onnx

__all__ = ["Models"]


class Models(NamedTuple):
    """The float model and the quantized one, with the same names of nodes and of initializers.

    Attributes:
        float_model: The float model.
        quantized: The same with pairs behind activations; its weights are float32 values that codes stand for.
        float_folder: Where the files are that the float model refers to, or None where all its constants are in it.
        quantized_folder: The same of the quantized model. Its weights have a file of their own, which is written again.
    """

    float_model: onnx.ModelProto
    quantized: onnx.ModelProto
    float_folder: Path | None = None
    quantized_folder: Path | None = None
