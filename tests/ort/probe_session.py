"""Runs the probe library (tests/cpp/ort_abi_probe.cc) in a session; a script, because a lying table may crash it.

Usage: python probe_session.py LIBRARY. Exit status 0 means that every slot told the truth.
"""

import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper


def probe_model() -> bytes:
    attributes = {"integer": 7, "real": 0.5, "text": "probe", "integers": [1, 2, 3], "reals": [0.5, 1.5]}
    node = helper.make_node("Probe", ["x", "w"], ["y"], "the node", domain="quarkfast.probe", **attributes)
    graph = helper.make_graph(
        [node],
        "probe",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("w", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("quarkfast.probe", 1)]
    return onnx.ModelProto.SerializeToString(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def refusal(library: str) -> str:
    """What Python hears when the library hands a status of its own making to onnxruntime."""
    os.environ["QUARKFAST_PROBE_REFUSE"] = "1"
    try:
        onnxruntime.SessionOptions().register_custom_ops_library(library)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        del os.environ["QUARKFAST_PROBE_REFUSE"]
    return "nothing"


def main(library: str) -> None:
    refused = refusal(library)
    if not (refused.startswith("InvalidArgument") and refused.endswith("the probe refuses on demand")):
        sys.exit(f"CreateStatus lied: {refused}")
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(library)
    session = onnxruntime.InferenceSession(probe_model(), options, providers=["CPUExecutionProvider"])
    if session.get_outputs()[0].shape != ["n", 3]:
        sys.exit(f"ShapeInferContext_SetOutputTypeShape lied: {session.get_outputs()[0].shape}")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for _ in range(3):
        (y,) = session.run(None, {"x": x})
        if y.tolist() != (2 * x).tolist():
            sys.exit(f"KernelContext_GetOutput lied: {y.tolist()}")


if __name__ == "__main__":
    main(sys.argv[1])
