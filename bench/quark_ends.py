"""Keys of a model's ends and of alignment, beside Quark: ``python -m bench.quark_ends WORK QUARK_PYTHON``.

Each on a Conv with 3 x 3, 8 channels of 16 x 16, and what stands behind it. Eight samples calibrate, eight others judge
with exact sums.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx

import quarkfast
from quarkfast.config.quark import Config, get_default_config
from quarkfast.errors import ModelError, QuarkfastError
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session

PRESETS = ("A8W8", "XINT8", "A16W8")
_THEIRS = Path(__file__).parent / "peers" / "quark_ends.py"


class Case(NamedTuple):
    """A key with a value, and what stands behind the Conv."""

    key: str
    nodes: str
    kind: str = "float"
    value: bool = True


CASES = (
    Case("ConvertNCHWToNHWC", "y = Relu (c)"),
    Case("ConvertFP16ToFP32", "y = Relu (c)", "float16"),
    Case("UseFP32Scale", "y = Relu (c)", "float16", value=False),
    Case("AlignConcat", "d = Conv (x, small) e = Concat <axis = 1> (c, d) y = Conv (e, both)"),
    Case("AlignPool", "d = AveragePool <kernel_shape = [3, 3]> (c) y = Conv (d, v)"),
    Case("AlignPad", "d = Pad (c, pads) y = Conv (d, v)"),
    Case("AlignSlice", "d = Slice (c, starts, ends) y = Conv (d, v)"),
    Case("AlignTranspose", "d = Transpose <perm = [0, 1, 3, 2]> (c) y = Conv (d, v)"),
    Case("AlignReshape", "d = Reshape (c, shape) y = Conv (d, v)"),
    Case("AdjustShiftSwish", "d = HardSigmoid <alpha = 0.16666667> (c) e = Mul (c, d) y = Conv (e, v)"),
)


def main() -> None:
    """Prints a table."""
    work, python = Path(sys.argv[1]), sys.argv[2]
    sys.stdout.write(f"| key | {' | '.join(PRESETS)} |\n| :-- |{' --: |' * len(PRESETS)}\n")
    for case in CASES:
        cells = " | ".join(_cell(work, python, case, preset) for preset in PRESETS)
        sys.stdout.write(f"| `{case.key}={case.value}` | {cells} |\n")
        sys.stdout.flush()


def _model(case: Case) -> onnx.ModelProto:
    text = f"""<ir_version: 8, opset_import: ["": 17]>
    g ({case.kind}[1, 8, 16, 16] x) => ({case.kind}[n, m, h, l] y) {{
        c = Conv <pads = [1, 1, 1, 1]> (x, w, b)
        {case.nodes}
    }}"""
    proto, rng = onnx.parser.parse_model(text), np.random.default_rng(7)
    shapes = {"w": (8, 8, 3, 3), "b": (8,), "v": (8, 8, 1, 1), "small": (8, 8, 1, 1), "both": (8, 16, 1, 1)}
    arrays = {name: rng.normal(0, 0.02 if name == "small" else 0.1, shape) for name, shape in shapes.items()}
    dtype = np.float16 if case.kind == "float16" else np.float32
    found = {name: array.astype(dtype) for name, array in arrays.items()} | {
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "starts": np.array([0, 0, 2, 2]),
        "ends": np.array([1, 8, 14, 14]),
        "shape": np.array([1, 8, 8, 32]),
    }
    read = {name for node in proto.graph.node for name in node.input}
    for name in sorted(read & set(found)):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(found[name], name))
    for node in proto.graph.node:
        node.name = f"{node.op_type}_{node.output[0]}".lower()
    return onnx.shape_inference.infer_shapes(proto)


def _cell(work: Path, python: str, case: Case, preset: str) -> str:
    key, model = case.key, _model(case)
    path, out, data = work / f"{key}.onnx", work / f"{key}_{preset}.onnx", work / f"{key}.npz"
    onnx.save(model, path)
    rng = np.random.default_rng(3)
    given, others = (rng.normal(0, 1, (8, 8, 16, 16)).astype(np.float32) for _ in range(2))
    np.savez(data, x=given)
    out.unlink(missing_ok=True)
    files = map(str, (path.resolve(), out.resolve(), preset, key, data.resolve(), case.value))
    subprocess.run([python, str(_THEIRS.resolve()), *files], cwd=work, check=False, capture_output=True)
    try:
        theirs = _judged(model, out.read_bytes(), others) if out.exists() else "no model"
    except ModelError:
        theirs = "does not load"
    return f"{_ours(path, model, case, preset, given, others)} / {theirs}"


def _ours(path: Path, model: onnx.ModelProto, case: Case, preset: str, given: np.ndarray, others: np.ndarray) -> str:
    config = get_default_config(preset)
    config.extra_options[case.key] = case.value
    dtype = np.float16 if case.kind == "float16" and case.key == "UseFP32Scale" else np.float32
    reader = [{"x": each[None].astype(dtype)} for each in given]
    try:
        found = quarkfast.ModelQuantizer(Config(config)).quantize_model(str(path), None, reader)
    except QuarkfastError:
        return "refused"
    assert found is not None
    return _judged(model, found.SerializeToString(), others)


def _judged(model: onnx.ModelProto, data: bytes, others: np.ndarray) -> str:
    found = []
    for each in (model.SerializeToString(), data):
        session = exact_session(each)
        end = session.get_inputs()[0]
        last = end.shape[-1] == others.shape[1]
        dtype = np.float16 if end.type == "tensor(float16)" else np.float32
        rows = [row[None].transpose(0, 2, 3, 1) if last else row[None] for row in others]
        results = [session.run(None, {end.name: row.astype(dtype)})[0].astype(np.float32) for row in rows]
        found.append(np.concatenate([row.transpose(0, 3, 1, 2) if last else row for row in results]))
    return f"{sqnr(*found):.1f} dB"


if __name__ == "__main__":
    main()
