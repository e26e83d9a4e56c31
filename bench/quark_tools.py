"""Conversions of whole models by Quark's tools and by ours: ``python -m bench.quark_tools WORK SHARED QUARK_PYTHON``.

Each converts a float model of ``SHARED/models``; what the two results give for a random sample is held against what the
model gives that they were made of, with exact sums. The float16 models are those of Quark's own tool. Its tools run
with the function of NumPy 1 that one of them calls.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quarkfast.errors import QuarkfastError
from quarkfast.evaluate.exact_sums import exact_session

_THEIRS = Path(__file__).parent / "peers" / "quark_tool.py"
SHAPES = {
    "resnet20_cifar10": (1, 3, 32, 32),
    "mobilenetv2_cifar10": (1, 3, 32, 32),
    "ppocr_cls": (1, 3, 48, 192),
    "ppocr_rec": (1, 3, 48, 320),
    "superres": (1, 1, 224, 224),
}


def main() -> None:
    """Prints a table."""
    work, shared, python = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    work.mkdir(parents=True, exist_ok=True)
    sys.stdout.write("| tool | model | quarkfast | Quark |\n| :-- | :-- | --: | --: |\n")
    for name, shape in SHAPES.items():
        model = shared / "models" / f"{name}.onnx"
        half = work / f"{name}.half.onnx"
        _run([python, str(_THEIRS), "convert_fp32_to_fp16"], [model, half])
        for tool, source in (("convert_fp16_to_fp32", half), ("convert_nchw_to_nhwc", model)):
            sys.stdout.write(f"| `{tool}` | {name} | {' | '.join(_cells(work, python, tool, source, shape))} |\n")
            sys.stdout.flush()


def _run(command: list[str], files: list[Path]) -> str:
    """Runs a tool; returns the last line that it said if it failed."""
    named = command[-1].endswith("convert_fp16_to_fp32")
    words = ["--input", str(files[0]), "--output", str(files[1])] if named else list(map(str, files))
    result = subprocess.run([*command, *words], check=False, capture_output=True, text=True)
    lines = (result.stderr or result.stdout).strip().splitlines()
    return "" if result.returncode == 0 else (lines or ["failed"])[-1]


def _cells(work: Path, python: str, tool: str, source: Path, shape: tuple[int, ...]) -> Iterator[str]:
    """Yields how far our result, and then Quark's, is from the model, relative to its largest output."""
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    wanted = _output(source, x)
    ours = [sys.executable, "-m", f"quarkfast.compat.quark.onnx.tools.{tool}"]
    for who, command in {"ours": ours, "theirs": [python, str(_THEIRS), tool]}.items():
        out = work / f"{source.stem}.{tool}.{who}.onnx"
        out.unlink(missing_ok=True)
        said = _run(command, [source, out])
        if not out.exists():
            yield said or "no model"
            continue
        try:
            found = _output(out, x)
        except (QuarkfastError, ValueError) as error:
            yield f"does not run: {str(error)[:80]}"
            continue
        yield f"{np.abs(found - wanted).max() / np.abs(wanted).max():.1e}"


def _output(model: Path, x: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns the first output, in the order of the float model."""
    session = exact_session(str(model))
    end = session.get_inputs()[0]
    last = len(end.shape) == 4 and end.shape[-1] == x.shape[1]
    given = x.transpose(0, 2, 3, 1) if last else x
    dtype = np.float16 if end.type == "tensor(float16)" else np.float32
    found = session.run(None, {end.name: np.ascontiguousarray(given.astype(dtype))})[0].astype(np.float64)
    return found.transpose(0, 3, 1, 2) if last and found.ndim == 4 else found


if __name__ == "__main__":
    main()
