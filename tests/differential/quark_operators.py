"""The block operators beside AMD Quark's own, bit for bit: ``python -m tests.differential.quark_operators LIBRARY``.

LIBRARY is Quark's operator library (``quark.onnx.get_library_path("CPU")``), in an environment with amd-quark, torch
and onnxruntime. Every format runs in every rounding mode, along an inner, the first and the last axis, with float32 and
float16 input, on as many values as asked for in each of them: random bit patterns, ordinary values, ties and
neighbours of ties, mantissas of ones, subnormals, zeros, infinities, NaN (`record_quark.float32_rows`).
Instruction sets take turns. Prints the values compared and those that differ, and exits with 1 if any does.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper

import quarkfast
from tests.golden.record_quark import MX_FLOATS, ONNX_TYPES, PRIME, float16_rows, float32_rows

ROW = 96  # values along the axis: whole blocks of 8, 16 and 32
RAGGED = 45


def formats() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, operator and attributes of every format."""
    bfp = {"bfp_method": "to_bfp", "bit_width": 16, "block_size": 8}
    yield "BFP16", "BFPQuantizeDequantize", bfp
    compiler = {**bfp, "use_compiler_version_cpu_kernel": 1}
    yield "BFP16, compiler's version", "BFPQuantizeDequantize", compiler
    for name, width in (("MX4", 11), ("MX6", 13), ("MX9", 16)):
        yield name, "BFPQuantizeDequantize", {**PRIME, "bit_width": width}
    for element in ["int8", *MX_FLOATS]:
        yield f"MX {element}", "MXQuantizeDequantize", {"element_dtype": element, "block_size": 32}


def inputs(values: int) -> Iterator[tuple[Any, int]]:
    """Arrays that have so many values together, as bits of float32 or float16, and the axis of the blocks."""
    rows = -(-values // 4 // ROW)
    x = float32_rows(101, rows, ROW).view(np.float32)
    yield x, -1
    yield float32_rows(102, rows, ROW).view(np.float32).T.copy(), 0
    ragged = float32_rows(103, 3 * (-(-values // 4 // RAGGED // 3)), RAGGED).view(np.float32)
    yield np.moveaxis(ragged.reshape(-1, 3, RAGGED), 2, 1).copy(), 1
    yield float16_rows(104, rows, ROW).astype(np.uint16).view(np.float16), -1


def session(model: bytes, library: str) -> onnxruntime.InferenceSession:
    """A session with the operators of a library."""
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(library)
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def one_node(operator: str, x: Any, attributes: dict[str, Any]) -> bytes:
    """A model of one node."""
    node = helper.make_node(operator, ["x"], ["y"], domain="com.amd.quark", **attributes)
    kind = ONNX_TYPES[x.dtype.name]
    x_info, y_info = (helper.make_tensor_value_info(name, kind, x.shape) for name in "xy")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.amd.quark", 1)]
    graph = helper.make_graph([node], "one", [x_info], [y_info])
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def bits(x: Any) -> Any:
    return x.view(f"u{x.dtype.itemsize}")


def compare(operator: str, attributes: dict[str, Any], library: str, values: int) -> tuple[int, int]:
    """Values compared and values that differ, over all rounding modes and inputs."""
    isas = quarkfast.available_isas()
    compared = differ = 0
    for mode in range(3):
        for x, axis in inputs(values):
            model = one_node(operator, x, {**attributes, "rounding_mode": mode, "axis": axis})
            theirs = session(model, library).run(None, {"x": x})[0]
            ours = session(model, quarkfast.get_library_path())
            for isa in isas:
                with quarkfast.use_isa(isa):
                    differ += int((bits(ours.run(None, {"x": x})[0]) != bits(theirs)).sum())
            compared += x.size
    return compared, differ


def main() -> int:
    """Print a line a format; return 1 if a value differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.quark_operators", description=__doc__)
    parser.add_argument("library", type=Path, help="Quark's operator library")
    parser.add_argument("--values", type=int, default=1_000_000, help="values a format and rounding mode")
    options = parser.parse_args()
    importlib.import_module("torch")  # Quark's library is linked to those of torch, which must be loaded before it
    sys.stdout.write(f"instruction sets: {', '.join(quarkfast.available_isas())}\n")
    total = 0
    for name, operator, attributes in formats():
        compared, differ = compare(operator, attributes, str(options.library), options.values)
        sys.stdout.write(f"{name}: {compared:,} values, {differ} differ\n")
        total += differ
    return min(total, 1)


if __name__ == "__main__":
    sys.exit(main())
