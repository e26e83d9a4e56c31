"""How far each channel of a tensor reaches, told by ONNX Runtime itself while it runs the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.calibration.data import Feed
from quarkfast.calibration.data.inputs import rows_of
from quarkfast.deferred import ir
from quarkfast.errors import CalibrationError, ModelError
from quarkfast.graph.external_constants import proto_and_folder
from quarkfast.graph.opset import opset_version

__all__ = ["channel_reaches"]

# From this operator set on, ReduceMax has its axes as an input.
_AXES_AS_INPUT = 18


def channel_reaches(
    model: ir.Model, tensors: Mapping[str, int], feeds: Iterable[Feed], report: Callable[[int], None]
) -> tuple[dict[str, NDArray[np.float32]], int]:
    """Runs `model` on `feeds` and returns the largest magnitude in each channel of tensors, and the number of samples.

    The maxima are outputs of the model that runs, so that no tensor leaves it.

    Args:
        model: A prepared model; it is not changed.
        tensors: Names of outputs of its nodes, and how many channels each has along its last axis.
        feeds: Checked feeds.
        report: Called after each run with the number of samples so far: rows of the first input.

    Raises:
        CalibrationError: If ONNX Runtime cannot run the model on a feed.
        ModelError: If ONNX Runtime rejects the model.
        UnsupportedError: If it is too large for one protobuf, and its constants are not in files of one folder.
    """
    proto, folder = proto_and_folder(model)
    del proto.graph.output[:]
    for name, channels in tensors.items():
        _add_reach(proto.graph, name, channels, opset_version(model))
    options = ort.session_options(spinning=False)
    options.enable_mem_pattern = False  # one block for all activations, which rounds up to more than they need
    session = ort.inference_session(proto.SerializeToString(), options, folder=folder)
    found = {name: np.zeros(channels, np.float32) for name, channels in tensors.items()}
    samples = 0
    for number, feed in enumerate(feeds, 1):
        try:
            reaches = ort.run(session, feed)
        except ModelError as error:
            raise CalibrationError(f"calibration data: sample {number}: {error}") from error
        for name, reach in zip(tensors, reaches, strict=True):
            np.maximum(found[name], reach, out=found[name])
        samples += rows_of(feed)
        report(samples)
    return found, samples


def _add_reach(graph: onnx.GraphProto, tensor: str, channels: int, opset: int) -> None:
    """Makes the largest magnitude in each channel of `tensor` an output of `graph`."""
    shape, rows, sizes, axes, reach = (f"{tensor}, {what}" for what in ("shape", "rows", "sizes", "axes", "reach"))
    constants = {shape: [-1, channels]} | ({axes: [0]} if opset >= _AXES_AS_INPUT else {})
    graph.initializer.extend(
        onnx.numpy_helper.from_array(np.array(values, np.int64), name) for name, values in constants.items()
    )
    make = onnx.helper.make_node
    maximum = (
        make("ReduceMax", [sizes, axes], [reach], keepdims=0)
        if opset >= _AXES_AS_INPUT
        else make("ReduceMax", [sizes], [reach], keepdims=0, axes=[0])
    )
    graph.node.extend([make("Reshape", [tensor, shape], [rows]), make("Abs", [rows], [sizes]), maximum])
    graph.output.append(onnx.helper.make_tensor_value_info(reach, onnx.TensorProto.FLOAT, [channels]))
