"""Models for CPUs with VNNI and without: ``python -m bench.portable WORK SHARED MINILM TOKENIZER [--write]``.

With ``--write`` it quantizes each model in each case as it is by default (``WORK/after``), with ``portable=False``
(``WORK/before``) and that with ``reduce_range=True`` (``WORK/reduced``), and puts calibration data into ``WORK/data``;
models of other tools are read from ``WORK/TOOL/MODEL.CASE.onnx`` (`bench.matrix`). Then it runs all of them in default
sessions with one thread, as this processor adds, and keeps what it finds in ``WORK/vnni.json`` or
``WORK/no_vnni.json``. It prints two Markdown tables of what these hold: run it on both kinds of processor, or as on the
other one:

    python -m tools.processor avx2 python -m bench.portable WORK SHARED MINILM TOKENIZER

Latency is the processor time of one run, the least of several, the models of a row in turn.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import quarkfast
from bench.data.subjects import Outputs, Subject, subjects
from quarkfast import ort
from quarkfast.demo.data import INPUT_NAME, MODEL, load_images
from quarkfast.errors import ModelError
from quarkfast.evaluate.exact_sums import with_exact_products

MODELS = ("demo", "resnet20_cifar10", "resnet56_cifar10", "mobilenetv2_cifar10", "minilm", "ppocr_rec", "text_yolox")
CASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "U8S8": ("U8S8", {}),
    "U8S8-channel": ("U8S8", {"per_channel": True}),
    "DYNAMIC": ("DYNAMIC", {}),
}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "before": {"portable": False},
    "after": {},
    "reduced": {"portable": False, "reduce_range": True},
}
COLUMNS = (*VARIANTS, "onnxruntime")
KINDS = ("vnni", "no_vnni")
ROUNDS = 7
Found = dict[str, dict[str, Any]]


def chosen(arguments: argparse.Namespace) -> dict[str, Callable[[], Subject]]:
    """Returns the models by name, as functions that read their data."""
    images = load_images()
    demo = partial(Subject, "demo", MODEL, {INPUT_NAME: images.calibration}, {INPUT_NAME: images.test}, batch=50)
    known = {**subjects(arguments.shared, arguments.minilm, arguments.tokenizer), "demo": demo}
    wanted = arguments.only.split(",") if arguments.only else MODELS
    return {name: known[name] for name in wanted}


def write(subject: Subject, work: Path) -> None:
    """Writes every case and variant of a model, and its calibration data."""
    (work / "data").mkdir(parents=True, exist_ok=True)
    np.savez(work / "data" / f"{subject.name}.npz", **subject.calibration)
    for variant, changes in VARIANTS.items():
        (work / variant).mkdir(exist_ok=True)
        for case, (preset, options) in CASES.items():
            path = work / variant / f"{subject.name}.{case}.onnx"
            given = {**options, **changes, "batch_size": subject.batch}
            quarkfast.quantize(subject.model, path, preset, subject.calibration, **given)


def kind() -> str:
    """Returns "vnni" if sums of products of 8 bits are exact in this process."""
    text = '<ir_version: 8, opset_import: ["" : 13]> g (uint8[2, 8] x, int8[8, 4] w) => (int32[2, 4] y)'
    model = onnx.parser.parse_model(f"{text} {{ y = MatMulInteger(x, w) }}")
    feed = {"x": np.full((2, 8), 255, np.uint8), "w": np.full((8, 4), 127, np.int8)}
    got, exact = (
        ort.run(ort.inference_session(each.SerializeToString()), feed)[0]
        for each in (model, with_exact_products(model))
    )
    return "vnni" if np.array_equal(got, exact) else "no_vnni"


def outputs(subject: Subject, model: Path) -> Outputs:
    """Returns the parts of the outputs of a default session for every evaluation sample."""
    session = ort.inference_session(model, ort.session_options(threads=1))
    starts = range(0, len(next(iter(subject.evaluation.values()))), subject.batch)
    feeds = ({name: rows[i : i + subject.batch] for name, rows in subject.evaluation.items()} for i in starts)
    return [
        np.concatenate(part) for part in zip(*(subject.parts(ort.run(session, feed)) for feed in feeds), strict=True)
    ]


def milliseconds(subject: Subject, paths: Mapping[str, Path]) -> dict[str, float]:
    """Returns the least processor time of a run of each model, the models in turn."""
    feed = {name: rows[: subject.batch] for name, rows in subject.evaluation.items()}
    sessions = {name: ort.inference_session(path, ort.session_options(threads=1)) for name, path in paths.items()}
    best = dict.fromkeys(sessions, float("inf"))
    for _ in range(ROUNDS):
        for name, session in sessions.items():
            start = time.process_time()
            ort.run(session, feed)
            best[name] = min(best[name], (time.process_time() - start) * 1e3)
    return best


def runs(path: Path) -> bool:
    """Returns whether ONNX Runtime takes a model, which it does of all of ours and not of all of other tools."""
    try:
        ort.inference_session(path, ort.session_options(threads=1))
    except ModelError:
        if path.parent.name in VARIANTS:
            raise
        return False
    return True


def measure(subject: Subject, work: Path) -> Found:
    """Returns decibels and milliseconds of every file of a model, by case."""
    reference, found = outputs(subject, subject.model), {}
    for case in CASES:
        paths = {name: work / name / f"{subject.name}.{case}.onnx" for name in COLUMNS}
        paths = {name: path for name, path in paths.items() if path.exists() and runs(path)}
        ratios = {name: subject.score(outputs(subject, path), reference)[1] for name, path in paths.items()}
        found[f"{subject.name} {case}"] = {
            name: {"decibels": ratios[name], "milliseconds": best}
            for name, best in milliseconds(subject, paths).items()
        }
    return found


def tables(work: Path) -> Iterator[str]:
    """Yields the lines of both tables."""
    files = {name: work / f"{name}.json" for name in KINDS}
    found = {name: json.loads(file.read_text()) if file.exists() else {} for name, file in files.items()}

    def cell(kind: str, row: str, column: str, what: str) -> str:
        each = found[kind].get(row, {}).get(column)
        if each is None:
            return ""
        return " / ".join(f"{value:.1f}" for value in (each[what] if what == "decibels" else [each[what]]))

    for what, columns in (
        ("decibels", [("vnni", "before"), ("vnni", "after"), ("no_vnni", "before"), ("no_vnni", "after")]),
        ("milliseconds", [("vnni", "before"), ("vnni", "after"), *(("no_vnni", column) for column in COLUMNS[1:])]),
    ):
        yield f"| {what} | {' | '.join(f'{column}, {name}' for name, column in columns)} |"
        yield f"| :-- |{' --: |' * len(columns)}"
        for row in found["vnni"] | found["no_vnni"]:
            yield f"| {row} | {' | '.join(cell(name, row, column, what) for name, column in columns)} |"
        yield ""


def main() -> None:
    """Writes, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("work", "shared", "minilm", "tokenizer"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    stored = arguments.work / f"{kind()}.json"
    for make in chosen(arguments).values():
        subject = make()
        if arguments.write:
            write(subject, arguments.work)
        known = json.loads(stored.read_text()) if stored.exists() else {}
        stored.write_text(json.dumps(known | measure(subject, arguments.work)))
    print("\n".join(tables(arguments.work)))


if __name__ == "__main__":
    main()
