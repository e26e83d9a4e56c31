"""Keys that change the ends of a model, beside Quark: ``python -m bench.quark_ends WORK QUARK_PYTHON``.

A Conv with 3 x 3 and a Relu, 8 channels of 16 x 16: once turned by ``ConvertNCHWToNHWC``, once in float16 and widened
by ``ConvertFP16ToFP32``. Eight samples calibrate, eight others judge with exact sums.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx

import quarkfast
from quarkfast.config.quark import Config, get_default_config
from quarkfast.errors import ModelError
from quarkfast.evaluate import sqnr
from quarkfast.evaluate.exact_sums import exact_session

PRESETS = ("A8W8", "XINT8", "A16W8")
KEYS = {"ConvertNCHWToNHWC": "float", "ConvertFP16ToFP32": "float16"}
_THEIRS = Path(__file__).parent / "peers" / "quark_ends.py"


def main() -> None:
    """Prints a table."""
    work, python = Path(sys.argv[1]), sys.argv[2]
    sys.stdout.write(f"| key | {' | '.join(PRESETS)} |\n| :-- |{' --: |' * len(PRESETS)}\n")
    for key, kind in KEYS.items():
        sys.stdout.write(f"| `{key}` | {' | '.join(_cell(work, python, key, kind, each) for each in PRESETS)} |\n")


def _model(kind: str) -> onnx.ModelProto:
    text = f"""<ir_version: 8, opset_import: ["": 17]>
    g ({kind}[1, 8, 16, 16] x) => ({kind}[1, 8, 16, 16] y) {{
        [conv] c = Conv <pads = [1, 1, 1, 1]> (x, w, b)
        [relu] y = Relu (c)
    }}"""
    proto, rng = onnx.parser.parse_model(text), np.random.default_rng(7)
    dtype = np.float16 if kind == "float16" else np.float32
    for name, array in (("w", rng.normal(0, 0.1, (8, 8, 3, 3))), ("b", rng.normal(0, 0.1, 8))):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(dtype), name))
    return proto


def _cell(work: Path, python: str, key: str, kind: str, preset: str) -> str:
    path, out, data = work / f"{key}.onnx", work / f"{key}_{preset}.onnx", work / f"{key}.npz"
    onnx.save(_model(kind), path)
    rng = np.random.default_rng(3)
    given, others = (rng.normal(0, 1, (8, 8, 16, 16)).astype(np.float32) for _ in range(2))
    np.savez(data, x=given)
    config = get_default_config(preset)
    config.extra_options[key] = True
    reader = [{"x": each[None]} for each in given]
    ours = quarkfast.ModelQuantizer(Config(config)).quantize_model(str(path), None, reader)
    assert ours is not None
    out.unlink(missing_ok=True)
    command = [python, str(_THEIRS.resolve()), *map(str, (path.resolve(), out.resolve(), preset, key, data.resolve()))]
    subprocess.run(command, cwd=work, check=False, capture_output=True)
    try:
        theirs = _judged(_model(kind), out.read_bytes(), others) if out.exists() else "no model"
    except ModelError:
        theirs = "does not load"
    return f"{_judged(_model(kind), ours.SerializeToString(), others)} / {theirs}"


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
