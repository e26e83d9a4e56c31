"""Models of few operators quantized for the accelerator, in codes and positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

import quarkfast
from support.tiny_models import run_as_written, tiny_model


class Written:
    """A model with an input x and an output y, quantized, with what its tensors became."""

    def __init__(
        self,
        text: str,
        arrays: Mapping[str, NDArray[Any]] | None = None,
        preset: str = "XINT8",
        opset: int = 17,
        span: float = 4.0,
        **options: Any,
    ) -> None:
        proto = tiny_model(text, arrays or {}, opset=opset)
        shape = [each.dim_value or 64 for each in proto.graph.input[0].type.tensor_type.shape.dim]
        self.samples = np.random.default_rng(5).uniform(-span, span, shape).astype(np.float32)
        self.result = quarkfast.quantize(proto, preset=preset, calibration_data=self.samples, **options)
        graph = self.result.proto.graph
        self.arrays = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
        self.operators = [node.op_type for node in graph.node if "Linear" not in node.op_type]
        self._scales = {node.input[0]: node.input[1] for node in graph.node if node.op_type == "QuantizeLinear"}
        self._scales |= {node.output[0]: node.input[1] for node in graph.node if node.op_type == "DequantizeLinear"}

    def position(self, tensor: str) -> int:
        """Returns how many bits are behind the point of a tensor's codes."""
        name = self._scales.get(tensor, f"{tensor}_scale")
        return -int(np.log2(self.arrays[name].item()))

    def codes(self) -> NDArray[np.int64]:
        """Returns every code of the input, in any order, in its shape."""
        rng, shape = np.random.default_rng(7), self.samples.shape
        return np.resize(rng.permutation(np.arange(-128, 128)), shape).astype(np.int64)

    def out(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the output's codes for the input's."""
        x = np.ldexp(codes.astype(np.float32), -self.position("x"))
        y = run_as_written(self.result.proto.SerializeToString(), x)
        return np.ldexp(y, self.position("y")).astype(np.int64)


def equal(found: NDArray[Any], expected: NDArray[Any]) -> None:
    """Makes sure that codes are the same."""
    np.testing.assert_array_equal(found, expected.astype(np.int64))
