"""Quality of every preset on every model, beside the peers': ``python -m bench.matrix WORK SHARED MINILM TOKENIZER``.

SHARED holds ``models/`` and ``data/``, MINILM is the sentence encoder, TOKENIZER its ``tokenizer.json``. Writes the
calibration data of each model to ``WORK/data/MODEL.npz``, where the scripts of ``bench/peers`` read it, and our models
to ``WORK/quarkfast``. Then scores all files ``WORK/TOOL/MODEL.CASE.onnx`` with exact sums, which are the same on every
processor, and prints one Markdown table a model.
``--only MODEL,...`` and ``--cases CASE,...`` leave out the others.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import quarkfast
from bench.subjects import Subject, subjects
from quarkfast.errors import QuarkfastError

CASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "A8W8": ("A8W8", {}),
    "A8W8-channel": ("A8W8", {"per_channel": True}),
    "A16W8": ("A16W8", {}),
    "XINT8": ("XINT8", {}),
    "U8S8": ("U8S8", {}),
    "U8S8-channel": ("U8S8", {"per_channel": True}),
    "BF16": ("BF16", {}),
    "FP16": ("FP16", {}),
    "BFP16": ("BFP16", {}),
    "MX9": ("MX9", {}),
    "MX6": ("MX6", {}),
    "MXINT8": ("MXINT8", {}),
    "MXFP8E4M3": ("MXFP8E4M3", {}),
    "MXFP6E2M3": ("MXFP6E2M3", {}),
    "INT8_WO": ("INT8_WO", {}),
    "INT4_WO": ("INT4_WO", {}),
    "DYNAMIC": ("DYNAMIC", {}),
}
"""Name of a case -> preset and options."""


def quantize(subject: Subject, folder: Path, cases: list[str]) -> None:
    """Writes `subject` in every case to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for case in cases:
        preset, options = CASES[case]
        data = {name: np.asarray(rows) for name, rows in subject.calibration.items()}
        path = folder / f"{subject.name}.{case}.onnx"
        options = {**options, "batch_size": subject.batch}
        quarkfast.quantize(subject.model, path, preset=preset, calibration_data=data, **options)
        onnx.checker.check_model(str(path), full_check=True)


def table(subject: Subject, work: Path, cases: list[str]) -> Iterator[str]:
    """Yields the lines of a model's table: cases down, tools across."""
    tools = sorted(each.name for each in work.iterdir() if each.is_dir() and any(each.glob(f"{subject.name}.*.onnx")))
    tools.sort(key=lambda name: name != "quarkfast")
    reference = subject.outputs(subject.model)
    figure, _ = subject.score(reference, reference)
    heading = f"float: {subject.unit} {figure:.2f}" if figure is not None else "SQNR"
    yield f"### {subject.name}, {len(reference)} samples, {heading}, exact sums"
    yield ""
    yield f"| case | {' | '.join(tools)} |"
    yield f"| :-- |{' --: |' * len(tools)}"
    for case in cases:
        cells = [cell(subject, work / tool / f"{subject.name}.{case}.onnx", reference) for tool in tools]
        if any(cells):
            yield f"| {case} | {' | '.join(cells)} |"


def cell(subject: Subject, path: Path, reference: Any) -> str:
    """Returns what one model scores, or why it does not."""
    if not path.exists():
        return ""
    try:
        figure, ratio = subject.score(subject.outputs(path), reference)
    except QuarkfastError:
        return "does not run"
    finally:
        gc.collect()
    return f"{ratio:.1f} dB" if figure is None else f"{figure:.2f} ({ratio:.1f} dB)"


def main() -> None:
    """Quantizes, scores and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("work", "shared", "minilm", "tokenizer"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--cases", default=",".join(CASES))
    arguments = parser.parse_args()
    quarkfast.register_schemas()
    cases = arguments.cases.split(",")
    for subject in subjects(arguments.shared, arguments.minilm, arguments.tokenizer):
        if arguments.only and subject.name not in arguments.only.split(","):
            continue
        data = arguments.work / "data" / f"{subject.name}.npz"
        data.parent.mkdir(parents=True, exist_ok=True)
        np.savez(data, **subject.calibration)
        quantize(subject, arguments.work / "quarkfast", [case for case in cases if case in CASES])
        print("\n".join(table(subject, arguments.work, cases)), "\n", flush=True)


if __name__ == "__main__":
    main()
