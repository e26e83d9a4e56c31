"""What a quality target brings and costs: ``python -m bench.quality_target SHARED [MODEL [PRESET [DB]]]``.

SHARED holds ``models/`` and ``data/`` (`bench.data.wild`). Samples that calibrate are given, the others measure, with
exact sums: of the text recognizer 384 lines. It is asked for a drop of one point of the words of the lines that
calibrate, the others for 25 dB, or for DB. Prints a line of a Markdown table for each model and preset.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import quarkfast
from bench.data.subjects import Subject, subjects
from bench.data.wild import RECORDINGS, characters, read_greedily
from quarkfast import ort

RECOGNIZER = "ppocr_rec"
CASES = (
    *((RECOGNIZER, preset) for preset in ("A8W8", "U8S8", "A16W8", "XINT8")),
    *((name, "A8W8") for name in ("text_yolox", "basic_pitch", "ppocr_cls")),
)


def model_of(subject: Subject) -> onnx.ModelProto:
    """Returns the model with the shape of its samples: some declare -1, or a height that is not known."""
    model = onnx.load(subject.model)
    for value in model.graph.input:
        if value.name in subject.calibration:
            shape = value.type.tensor_type.shape
            for dim, size in zip(shape.dim[1:], subject.calibration[value.name].shape[1:], strict=True):
                dim.dim_value = size
    return model


def words_read(alphabet: list[str], session: Any, data: tuple[Any, list[str]]) -> float:
    """Returns how many words of images a session reads exactly, in percent."""
    images, words = data
    (name,) = (each.name for each in session.get_inputs())
    return words_of(alphabet, np.concatenate([ort.run(session, {name: row[None]})[0] for row in images]), words)


def recognizer(subject: Subject, data: Path) -> tuple[Subject, Mapping[str, Any]]:
    """Returns the recognizer with all lines that do not calibrate, and what is asked for."""
    lines = RECORDINGS[RECOGNIZER]
    with np.load(data / lines.file) as stored:
        words = [str(text) for text in stored["text"]]
    first, alphabet = lines.calibration, characters(subject.model)

    def judge(outputs: Any, _: Any) -> float:
        return words_of(alphabet, outputs, words[first:])

    others, labelled = lines.samples(data, first, len(words)), (subject.calibration[lines.input], words[:first])
    goal = {"max_drop": 1.0, "metric": partial(words_read, alphabet), "metric_data": labelled}
    return replace(subject, evaluation=others, judge=judge), goal


def words_of(alphabet: list[str], probabilities: Any, words: list[str]) -> float:
    """Returns how many words outputs stand for, in percent."""
    read = read_greedily(probabilities, alphabet)
    return 100 * sum(one == other for one, other in zip(read, words, strict=True)) / len(words)


def row(subject: Subject, preset: str, goal: Mapping[str, Any]) -> str:
    """Returns what a preset gives without a target and with it, and what part of activations and weights is wide."""
    model, wanted = model_of(subject), subject.outputs(subject.model)
    given = {"preset": preset, "calibration_data": subject.calibration}
    plain = quarkfast.quantize(model, **given)
    start = time.process_time()
    result = quarkfast.quantize(model, **given, **goal)
    seconds = time.process_time() - start
    figures = [_figures(subject, each.model_bytes, wanted) for each in (plain, result)]
    kept = ", ".join(each.lever.split(" (")[0] for each in result.summary.levers[1:] if each.kept) or "none"
    wide = " / ".join(f"{100 * each:.1f} %" for each in result.summary.above_8_bits)
    return f"| {subject.name}, {preset} | {figures[0]} | {kept} | {figures[1]} | {wide} | {seconds:.0f} |"


def _figures(subject: Subject, model: bytes, wanted: list[Any]) -> str:
    figure, ratios = subject.score(subject.outputs(model), wanted)
    told = " / ".join(f"{ratio:.1f}" for ratio in ratios) + " dB"
    return told if figure is None else f"{told}, {figure:.1f} %"


def main() -> None:
    """Prints the table of the models on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("model", nargs="?", choices=sorted({name for name, _ in CASES}), help="all by default")
    parser.add_argument("preset", nargs="?", help="all of the model's by default")
    parser.add_argument("db", nargs="?", type=float, help="dB that are asked for")
    given = parser.parse_args()
    known = subjects(given.shared, Path(), Path())
    for name, preset in CASES:
        if given.model in (None, name) and given.preset in (None, preset):
            subject = known[name]()
            goal: Mapping[str, Any] = {"min_sqnr": 25.0 if given.db is None else given.db}
            if name == RECOGNIZER and given.db is None:
                subject, goal = recognizer(subject, given.shared / "data")
            print(row(subject, preset, goal), flush=True)


if __name__ == "__main__":
    main()
