"""Runs the operator Race of the probe library (tests/cpp/ort_abi_probe.cc) from many threads at once.

Usage: python race_probe.py LIBRARY [OWN]. Race changes memory that it does not guard: under ThreadSanitizer this script
must end with the sanitizer's exit status, or a clean run of the other tests means nothing. With OWN each thread has a
session of its own.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

THREADS, RUNS = 8, 200


def race_model() -> bytes:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "ab"]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])]
    graph = helper.make_graph(
        [helper.make_node("Race", ["a", "b"], ["y"], domain="quarkfast.probe")], "race", inputs, outputs
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("quarkfast.probe", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def session(library: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.register_custom_ops_library(library)
    return onnxruntime.InferenceSession(race_model(), options, providers=["CPUExecutionProvider"])


def main(library: str, own: bool) -> None:
    sessions = [session(library) for _ in range(THREADS)] if own else [session(library)] * THREADS
    feeds = {name: np.ones(20000, np.float32) for name in "ab"}

    def runs(index: int) -> float:
        return max(float(sessions[index].run(None, feeds)[0]) for _ in range(RUNS))

    with ThreadPoolExecutor(THREADS) as pool:
        sys.stdout.write(f"{max(pool.map(runs, range(THREADS))):.0f} runs counted of {THREADS * RUNS}\n")


if __name__ == "__main__":
    main(sys.argv[1], own=len(sys.argv) > 2)
