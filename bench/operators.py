"""Every operator beside AMD Quark's own and beside a plain copy: ``python -m bench.operators LIBRARY``.

LIBRARY is Quark's operator library (``quark.onnx.get_library_path("CPU")``). Models of one node run on 4 Mi elements,
one thread, inputs and output bound to memory that lasts. Outputs are compared before they are timed. Contestants run in
turn; the table shows the rates of their least times. "of a copy" is our time as a multiple of ``numpy.copyto`` between
two float32 arrays of 4 Mi elements, in the same rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from bench.two_libraries import LIBRARIES, fastest, open_session, paths

ELEMENTS = 1 << 22
SHAPE = (64, 64, 32, 32)
ONNX_TYPES = {
    name: getattr(TensorProto, name.upper())
    for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16")
} | {"float32": TensorProto.FLOAT}
HEAD = (
    "| operator | | Mi/s | times Quark's | of a copy |",
    "| :-- | :-- " + "| --: " * 3 + "|",
)


@dataclass(frozen=True)
class Case:
    """One operator with its attributes and inputs; ``output`` names its type, ``shape`` is its shape."""

    operator: str
    label: str
    inputs: list[Any]
    output: str = "float32"
    attributes: dict[str, Any] = field(default_factory=dict)
    shape: tuple[int, ...] = SHAPE

    def model(self) -> bytes:
        """The first input enters the session, the others are constants."""
        names = [f"x{i}" for i in range(len(self.inputs))]
        x = helper.make_tensor_value_info("x0", ONNX_TYPES[self.inputs[0].dtype.name], self.inputs[0].shape)
        held = [
            helper.make_tensor(name, ONNX_TYPES[a.dtype.name], a.shape, a.tobytes(), raw=True)
            for name, a in zip(names[1:], self.inputs[1:], strict=True)
        ]
        node = helper.make_node(self.operator, names, ["y"], domain="com.amd.quark", **self.attributes)
        y = helper.make_tensor_value_info("y", ONNX_TYPES[self.output], None)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.amd.quark", 1)]
        graph = helper.make_graph([node], "one", [x], [y], held)
        return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def linear_cases(x: Any) -> Iterator[Case]:
    """Quantize and dequantize, every type, per tensor; int8 per channel too."""
    for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16"):
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        scale, point = np.float32([1.0 if "float" in name else 0.02]), np.zeros(1, dtype)
        codes = (x if "float" in name else np.clip(np.rint(x * 50), 0, 127)).astype(dtype)
        yield Case("ExtendedQuantizeLinear", name, [x, scale, point], name)
        yield Case("ExtendedDequantizeLinear", name, [codes, scale, point])
    scales, points = np.linspace(0.01, 0.03, SHAPE[1], dtype=np.float32), np.zeros(SHAPE[1], np.int8)
    codes = np.clip(np.rint(x * 50), -128, 127).astype(np.int8)
    yield Case("ExtendedQuantizeLinear", "int8, per channel", [x, scales, points], "int8", {"axis": 1})
    yield Case("ExtendedDequantizeLinear", "int8, per channel", [codes, scales, points], attributes={"axis": 1})


def block_cases(x: Any) -> Iterator[Case]:
    """The block formats as Quark's presets write them, along the channels, and along the last axis."""
    bfp = {"bfp_method": "to_bfp", "bit_width": 16, "block_size": 8}
    prime = {"bfp_method": "to_bfp_prime", "block_size": 16, "sub_block_size": 2, "sub_block_shift_bits": 1}
    for axis, place in ((1, "axis 1"), (-1, "last axis")):
        for name, more in (("BFP16", {}), ("BFP16, compiler's version", {"use_compiler_version_cpu_kernel": 1})):
            attributes = {**bfp, "rounding_mode": 2, "axis": axis, **more}
            yield Case("BFPQuantizeDequantize", f"{name}, {place}", [x], attributes=attributes)
        for name, width in (("MX4", 11), ("MX6", 13), ("MX9", 16)):
            attributes = {**prime, "bit_width": width, "rounding_mode": 2, "axis": axis}
            yield Case("BFPQuantizeDequantize", f"{name}, {place}", [x], attributes=attributes)
        for name in ("int8", "fp8_e4m3", "fp8_e5m2", "fp6_e3m2", "fp6_e2m3", "fp4_e2m1"):
            attributes = {"element_dtype": name, "block_size": 32, "rounding_mode": 2, "axis": axis}
            yield Case("MXQuantizeDequantize", f"{name}, {place}", [x], attributes=attributes)


def other_cases(x: Any) -> Iterator[Case]:
    """Instance normalization over 4 Mi elements; an LSTM whose output has 64 Ki."""
    channels = np.linspace(0.5, 2, SHAPE[1], dtype=np.float32)
    yield Case("ExtendedInstanceNormalization", "", [x, channels, channels], attributes={"epsilon": 1e-5})
    steps, inputs, hidden = 256, 128, 128
    flat = np.clip(x.reshape(-1) / 8, -1, 1)
    shapes = ((steps, 1, inputs), (2, 4 * hidden, inputs), (2, 4 * hidden, hidden), (2, 8 * hidden))
    tensors = [flat[: int(np.prod(shape))].reshape(shape) for shape in shapes]
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": "bidirectional"}
    attributes |= {f"{k}_scale": float(np.float32(2 / 65535)) for k in "xwrby"}
    attributes |= {f"{k}_zero_point": 32768 for k in "xwrby"}
    yield Case("ExtendedLSTM", "256 steps, 128 hidden", tensors, "float32", attributes, (steps, 2, 1, hidden))


def bound(session: onnxruntime.InferenceSession, case: Case) -> tuple[Callable[[], object], Callable[[], Any]]:
    """A run that allocates nothing outside of the session, and a reader of the output's bytes."""
    x = case.inputs[0]
    dtype = np.dtype(getattr(ml_dtypes, case.output, case.output))
    source = np.ascontiguousarray(x)
    target = np.zeros(case.shape, np.dtype(f"u{dtype.itemsize}"))
    binding = session.io_binding()
    binding.bind_input("x0", "cpu", 0, ONNX_TYPES[x.dtype.name], source.shape, source.ctypes.data)
    binding.bind_output("y", "cpu", 0, ONNX_TYPES[case.output], target.shape, target.ctypes.data)

    def run() -> object:
        assert source.size  # memory that ONNX Runtime reads lives as long as this function
        session.run_with_iobinding(binding)
        return target

    return run, lambda: target.copy()


def row(case: Case, libraries: dict[str, str], seconds: float) -> str:
    """One line of the table."""
    model = case.model()
    runs, results = {}, {}
    for name, library in libraries.items():
        run, result = bound(open_session(model, library), case)
        run()
        runs[name], results[name] = run, result()
    ours, theirs = (results[name] for name in LIBRARIES)
    differing = int((ours != theirs).sum())
    copy = np.zeros(ELEMENTS, np.float32), np.ones(ELEMENTS, np.float32)
    best = fastest({**runs, "copy": lambda: np.copyto(*copy)}, seconds)
    mine, other = (best[name] for name in LIBRARIES)
    times = f"{other / mine:.1f}" + (f", {differing} values differ" if differing else "")
    cells = [case.operator, case.label, f"{ours.size / mine / 2**20:,.4g}", times]
    of_a_copy = f"{mine / best['copy']:.2f}" if ours.size == ELEMENTS else ""
    return f"| {' | '.join([*cells, of_a_copy])} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.operators", description=__doc__)
    parser.add_argument("library", type=Path, help="Quark's operator library")
    parser.add_argument("--seconds", type=float, default=2, help="time for each row")
    parser.add_argument("--only", default="", help="rows whose operator or label contains this")
    options = parser.parse_args()
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    print(*HEAD, sep="\n")
    for cases in (linear_cases, block_cases, other_cases):
        for case in cases(x):
            if options.only in f"{case.operator} {case.label}":
                print(row(case, paths(options.library), options.seconds), flush=True)


if __name__ == "__main__":
    main()
