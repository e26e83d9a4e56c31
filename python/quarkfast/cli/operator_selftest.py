"""One trial run of every operator that the library registers with ONNX Runtime."""

from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from quarkfast import _core, ort
from quarkfast.kernels import quantize_mx

Array = NDArray[Any]


class OperatorTrial(NamedTuple):
    """An operator's name, what the trial feeds it, and what it must answer."""

    domain: str
    name: str
    inputs: tuple[Array, ...]
    output: Array
    attributes: dict[str, Any] = {}  # noqa: RUF012 - a NamedTuple's default is shared and never changed


_VALUES: Array = np.array([-1, 0, 0.5, 1.5], np.float32)
_CODES: Array = np.array([-2, 0, 1, 3], np.int8)
_SCALE: Array = np.array(0.5, np.float32)
_ZERO_POINT: Array = np.array(0, np.int8)
_IMAGE: Array = np.array([[[-1, 1]]], np.float32)
_ONE: Array = np.array([1], np.float32)
_SILENCE: tuple[Array, ...] = tuple(np.zeros(shape, np.float32) for shape in ((1, 1, 1), (2, 4, 1), (2, 4, 1), (2, 8)))
# Four bits hold these values exactly, and so does every wider format.
_RECORDS: Array = quantize_mx(_VALUES, "fp4_e2m1")
_MXFP4: dict[str, Any] = {"format": "mx", "element_dtype": "fp4_e2m1", "length": _VALUES.size}
_LSTM: dict[str, Any] = {
    "hidden_size": 1,
    "direction": "bidirectional",
    **{f"{name}_scale": 2.0**-12 for name in "xwrby"},
    **{f"{name}_zero_point": 32768 for name in "xwrby"},
}


def _quark(name: str, older: str, inputs: tuple[Array, ...], output: Array, **attributes: Any) -> list[OperatorTrial]:
    """An operator of AMD Quark's in both domains that it has names in."""
    names = [("com.amd.quark", name), ("com.vai.quantize", older)]
    return [OperatorTrial(*domain_and_name, inputs, output, attributes) for domain_and_name in names]


OPERATORS = [
    *_quark("ExtendedQuantizeLinear", "VitisQuantizeLinear", (_VALUES, _SCALE, _ZERO_POINT), _CODES),
    *_quark("ExtendedDequantizeLinear", "VitisDequantizeLinear", (_CODES, _SCALE, _ZERO_POINT), _VALUES),
    *_quark(
        "ExtendedInstanceNormalization",
        "VitisInstanceNormalization",
        (_IMAGE, _ONE, _ONE),
        np.array([[[0, 2]]], np.float32),
        epsilon=0.0,
    ),
    *_quark("ExtendedLSTM", "VitisLSTM", _SILENCE, np.zeros((1, 2, 1, 1), np.float32), **_LSTM),
    *_quark("BFPQuantizeDequantize", "BFPFixNeuron", (_VALUES,), _VALUES),
    *_quark("MXQuantizeDequantize", "MXFixNeuron", (_VALUES,), _VALUES),
    OperatorTrial("quarkfast", "QuantizeDequantizeLinear", (_VALUES, _SCALE, _ZERO_POINT), _VALUES),
    OperatorTrial("quarkfast", "DequantizeBlock", (_RECORDS, _SCALE), _VALUES, _MXFP4),
    OperatorTrial("quarkfast", "Observe", (_VALUES,), _VALUES, {"slot": 0}),
    # Signal, noise, least and largest value, differences beyond the limit, values, and values that are not finite.
    OperatorTrial(
        "quarkfast", "Compare", (_VALUES, _VALUES + 1), np.array([[3.5, 4, 0, 2.5, 0, 4, 0]]), {"limit": 1.0}
    ),
]


def fault_of(operator: OperatorTrial) -> str:
    """Run an operator in a session of its own.

    Returns:
        What is wrong with its answer; empty if nothing is.

    Raises:
        ModelError: ONNX Runtime rejects the operator or cannot run it.
    """
    collector = _core.Collector(1)
    observes = operator.name == "Observe"
    session = ort.inference_session(_model(operator, {"collector": collector.id} if observes else {}))
    feed = {f"x{index}": value for index, value in enumerate(operator.inputs)}
    answer = ort.run(session, feed)[0]
    if not np.array_equal(answer, operator.output):
        return f"expected {operator.output.tolist()}, got {answer.tolist()}"
    if observes and collector.range(0)["count"] != _VALUES.size:
        return f"expected {_VALUES.size} values observed, got {collector.range(0)['count']}"
    return ""


def _model(operator: OperatorTrial, attributes: dict[str, Any]) -> bytes:
    inputs = [_info(f"x{index}", value) for index, value in enumerate(operator.inputs)]
    node = helper.make_node(
        operator.name,
        [info.name for info in inputs],
        ["y"],
        domain=operator.domain,
        **operator.attributes,
        **attributes,
    )
    graph = helper.make_graph([node], "trial", inputs, [_info("y", operator.output)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(operator.domain, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return bytes(model.SerializeToString())


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
