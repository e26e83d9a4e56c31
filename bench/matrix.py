"""Quality of every preset on every model, beside the peers': ``python -m bench.matrix WORK SHARED MINILM TOKENIZER``.

SHARED holds ``models/`` and ``data/``, MINILM is the sentence encoder, TOKENIZER its ``tokenizer.json``. Writes the
calibration data of each model to ``WORK/data/MODEL.npz``, where the scripts of ``bench/peers`` read it, and our models
to ``WORK/quarkfast``. Then scores all files ``WORK/TOOL/MODEL.CASE.onnx`` with exact sums and prints one Markdown table
a model. ``--only MODEL,...`` and ``--cases CASE,...`` leave out the others. ``--page docs/results/peers.md`` puts what
was measured over the tables of that page (``wild.md`` for models from the wild), whose other cells stay as they are.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import quarkfast
from bench.data.subjects import Outputs, Subject, subjects
from bench.tables import Table, put
from quarkfast.errors import QuarkfastError

CASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "A8W8": ("A8W8", {}),
    "A8W8-channel": ("A8W8", {"per_channel": True}),
    "A16W8": ("A16W8", {}),
    "A16W8-channel": ("A16W8", {"per_channel": True}),
    "XINT8": ("XINT8", {}),
    "U8S8": ("U8S8", {}),
    "U8S8-channel": ("U8S8", {"per_channel": True}),
    "BF16": ("BF16", {}),
    "FP16": ("FP16", {}),
    "BFP16": ("BFP16", {}),
    "MX9": ("MX9", {}),
    "MX6": ("MX6", {}),
    "MX4": ("MX4", {}),
    "MXINT8": ("MXINT8", {}),
    "MXFP8E4M3": ("MXFP8E4M3", {}),
    "MXFP8E5M2": ("MXFP8E5M2", {}),
    "MXFP6E3M2": ("MXFP6E3M2", {}),
    "MXFP6E2M3": ("MXFP6E2M3", {}),
    "MXFP4E2M1": ("MXFP4E2M1", {}),
    "INT8_WO": ("INT8_WO", {}),
    "INT4_WO": ("INT4_WO", {}),
    "BF16_WO": ("BF16_WO", {}),
    "FP16_WO": ("FP16_WO", {}),
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


def measure(subject: Subject, work: Path, cases: list[str]) -> Table:
    """Returns what all models of a subject score."""
    tools = sorted(each.name for each in work.iterdir() if each.is_dir() and any(each.glob(f"{subject.name}.*.onnx")))
    tools.sort(key=lambda name: name != "quarkfast")
    reference = subject.outputs(subject.model)
    figure, _ = subject.score(reference, reference)
    heading = f"float: {subject.unit} {figure:.2f}" if figure is not None else "SQNR"
    table = Table(subject.name, f"{len(reference[0])} samples, {heading}", tools)
    for case in cases:
        paths = {tool: work / tool / f"{subject.name}.{case}.onnx" for tool in tools}
        cells = {tool: cell(subject, path, reference) for tool, path in paths.items() if path.exists()}
        if cells:
            table.rows[case] = cells
    return table


def cell(subject: Subject, path: Path, reference: Outputs) -> str:
    """Returns what one model scores, or why it does not."""
    try:
        figure, ratios = subject.score(subject.outputs(path), reference)
    except QuarkfastError:
        return "does not run"
    finally:
        gc.collect()
    if all(ratio == float("inf") for ratio in ratios):
        return "unchanged"
    decibels = ", ".join(f"{ratio:.1f}" for ratio in ratios)
    return decibels if figure is None else f"{figure:.2f}, {decibels}"


def main() -> None:
    """Quantizes, scores and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("work", "shared", "minilm", "tokenizer"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    quarkfast.register_schemas()
    cases, only = arguments.cases.split(","), arguments.only.split(",") if arguments.only else []
    found = subjects(arguments.shared, arguments.minilm, arguments.tokenizer)
    for name in only or found:
        subject = found[name]()
        data = arguments.work / "data" / f"{name}.npz"
        data.parent.mkdir(parents=True, exist_ok=True)
        np.savez(data, **subject.calibration)
        quantize(subject, arguments.work / "quarkfast", [case for case in cases if case in CASES])
        table = measure(subject, arguments.work, cases)
        print(table, "\n", flush=True)
        if arguments.page:
            page = arguments.page.read_text(encoding="utf-8")
            arguments.page.write_text(put(page, table, list(CASES)), encoding="utf-8")


if __name__ == "__main__":
    main()
