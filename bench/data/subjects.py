"""The models of the accuracy matrix: their data, and one figure for how good a model's outputs are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.data.wild import RECORDINGS, boxes_and_scores, characters, read_greedily, words
from quarkfast import ort
from quarkfast.evaluate import agreement, spearman, sqnr, top1
from quarkfast.evaluate.exact_sums import exact_session

Feed = Mapping[str, NDArray[Any]]
Outputs = list[NDArray[Any]]

MEAN = np.float32([0.485, 0.456, 0.406])[:, None, None]
STD = np.float32([0.229, 0.224, 0.225])[:, None, None]


def first_output(outputs: Outputs) -> Outputs:
    """Returns the first output alone."""
    return outputs[:1]


def every_output(outputs: Outputs) -> Outputs:
    """Returns all outputs."""
    return outputs


@dataclass(frozen=True)
class Subject:
    """One model with its data.

    Attributes:
        name: Name of the model.
        model: Path of its float form.
        calibration: Samples for calibration, along the first axis.
        evaluation: Samples for evaluation, none of which is among them.
        batch: Rows a run.
        unit: What `judge` returns; empty if there is nothing but SQNR.
        judge: From a part of the outputs, the first, and the float model's to a figure in percent.
        parts: From the outputs of a run to what is compared, each with an SQNR of its own.
        by_sample: Whether an SQNR is the mean of the samples' own, or that of all samples at once.
    """

    name: str
    model: Path
    calibration: Feed
    evaluation: Feed
    batch: int
    unit: str = ""
    judge: Callable[[NDArray[Any], NDArray[Any]], float] | None = None
    parts: Callable[[Outputs], Outputs] = first_output
    by_sample: bool = False

    def outputs(self, model: str | bytes | Path) -> Outputs:
        """Returns the parts of the outputs of `model` for every evaluation sample, computed with exact sums."""
        session = exact_session(model)
        starts = range(0, len(next(iter(self.evaluation.values()))), self.batch)
        feeds = [{name: rows[i : i + self.batch] for name, rows in self.evaluation.items()} for i in starts]
        runs = [self.parts(ort.run(session, feed)) for feed in feeds]
        return [np.concatenate(part) for part in zip(*runs, strict=True)]

    def score(self, outputs: Outputs, reference: Outputs) -> tuple[float | None, list[float]]:
        """Returns the figure of `judge`, or None, and the SQNR of each part against the float model's."""
        figure = self.judge(outputs[0], reference[0]) if self.judge else None
        ratio = _mean_sqnr if self.by_sample else sqnr
        return figure, [ratio(expected, got) for expected, got in zip(reference, outputs, strict=True)]


def _mean_sqnr(reference: NDArray[Any], output: NDArray[Any]) -> float:
    return float(np.mean([sqnr(expected, got) for expected, got in zip(reference, output, strict=True)]))


def subjects(shared: Path, minilm: Path, tokenizer: Path) -> dict[str, Callable[[], Subject]]:
    """Returns every model of the matrix by its name, as a function that reads its data.

    Args:
        shared: Folder with ``models/`` and ``data/``.
        minilm: The sentence encoder ``minilm.onnx``.
        tokenizer: Its ``tokenizer.json``.
    """
    models, data = shared / "models", shared / "data"
    found: dict[str, Callable[[], Subject]] = {name: partial(_cifar, models / f"{name}.onnx", data) for name in _CIFAR}
    found["superres"] = lambda: Subject("superres", models / "superres.onnx", *_luminance(data), batch=4)
    found["magika"] = lambda: Subject("magika", models / "magika.onnx", *_file_bytes(), batch=16)
    found["mnist"] = lambda: Subject("mnist", models / "mnist.onnx", *_digits(), batch=1)
    found["minilm"] = partial(_minilm, minilm, tokenizer, data / "sts2016_headlines.tsv")
    return found | {name: partial(_wild, models / f"{name}.onnx", data) for name in RECORDINGS}


_CIFAR = ("resnet20_cifar10", "resnet56_cifar10", "mobilenetv2_cifar10")


def _cifar(model: Path, data: Path) -> Subject:
    calibration, _ = _images(data / "cifar10_calib.npz", 256)
    evaluation, labels = _images(data / "cifar10_eval.npz", None)
    feeds = {"input": calibration}, {"input": evaluation}
    return Subject(model.stem, model, *feeds, batch=50, unit="top-1", judge=lambda out, _: top1(out, labels))


def _wild(model: Path, data: Path) -> Subject:
    found = RECORDINGS[model.stem]
    calibration = found.samples(data, 0, found.calibration)
    evaluation = found.samples(data, found.calibration, found.end)
    subject = partial(Subject, model.stem, model, calibration, evaluation, found.batch)
    if model.stem == "ppocr_cls":  # samples that it is sure of have over 100 dB each, which no mean should count
        return subject(unit="same as float", judge=lambda out, reference: agreement(reference, out))
    if model.stem == "ppocr_rec":
        judge = partial(_words_read, characters(model), words(data))
        return subject(unit="words read", judge=judge, by_sample=True)
    return subject(parts=boxes_and_scores if model.stem == "text_yolox" else every_output, by_sample=True)


def _words_read(alphabet: list[str], truth: list[str], probabilities: NDArray[Any], _: NDArray[Any]) -> float:
    read = read_greedily(probabilities, alphabet)
    return 100 * sum(got == word for got, word in zip(read, truth, strict=True)) / len(truth)


def _images(path: Path, count: int | None) -> tuple[NDArray[np.float32], NDArray[Any]]:
    with np.load(path) as data:
        x, y = data["x"][:count], data["y"][:count]
    return ((x.astype(np.float32) / 255 - MEAN) / STD).astype(np.float32), y


def _luminance(data: Path) -> tuple[Feed, Feed]:
    """Returns images of 224 x 224, each a mosaic of 49 photographs of 32 x 32, as luminance from 0 to 1."""
    mosaics = []
    for name in ("cifar10_calib.npz", "cifar10_eval.npz"):
        with np.load(data / name) as stored:
            x = stored["x"][: 49 * 8].astype(np.float32) / 255
        grey = np.tensordot(np.float32([0.299, 0.587, 0.114]), x, axes=(0, 1))
        tiles = grey.reshape(-1, 7, 7, 32, 32).swapaxes(2, 3)
        mosaics.append({"input": np.ascontiguousarray(tiles.reshape(-1, 1, 224, 224))})
    return mosaics[0], mosaics[1]


def _file_bytes() -> tuple[Feed, Feed]:
    """Returns the first and last kilobyte of files of the Python installation; shorter ones are padded with 256."""
    import email

    import onnx

    folders = [Path(module.__file__ or "").parent for module in (np, onnx, email)]
    files = [file for folder in folders for file in sorted(folder.rglob("*.*")) if 64 < file.stat().st_size < 2**24]
    chosen = files[:: max(1, len(files) // 128)][:128]
    rows = np.full((len(chosen), 2048), 256, np.int32)
    for row, file in zip(rows, chosen, strict=True):
        content = np.frombuffer(file.read_bytes(), np.uint8)
        row[: min(1024, content.size)] = content[:1024]
        row[2048 - min(1024, content.size) :] = content[-1024:]
    return {"bytes": rows[0::2]}, {"bytes": rows[1::2]}


def _digits() -> tuple[Feed, Feed]:
    """Returns scikit-learn's digits of 8 x 8, each pixel tripled, in a frame of 28 x 28 and from 0 to 255."""
    from sklearn.datasets import load_digits

    small = load_digits().images.astype(np.float32) * np.float32(255 / 16)
    images = np.pad(small.repeat(3, axis=1).repeat(3, axis=2), ((0, 0), (2, 2), (2, 2)))[:, None]
    return {"Input3": images[:64]}, {"Input3": images[64:192]}


def _minilm(model: Path, tokenizer: Path, pairs: Path) -> Subject:
    from bench.data.sentences import SENTENCES

    rows = [line.split("\t") for line in pairs.read_text(encoding="utf-8").splitlines()]
    scores = np.array([float(row[0]) for row in rows])
    tokens = _tokens(tokenizer, [row[1] for row in rows] + [row[2] for row in rows])

    def judge(embeddings: NDArray[Any], _: NDArray[Any]) -> float:
        first, second = embeddings[: len(rows)], embeddings[len(rows) :]
        return 100 * spearman((first * second).sum(axis=1), scores)

    return Subject("minilm", model, _tokens(tokenizer, SENTENCES), tokens, batch=32, unit="Spearman", judge=judge)


def _tokens(tokenizer: Path, sentences: list[str]) -> Feed:
    from tokenizers import Tokenizer

    reader = Tokenizer.from_file(str(tokenizer))
    reader.enable_truncation(64)
    reader.enable_padding(length=64)
    encoded = reader.encode_batch(sentences)
    return {
        "input_ids": np.array([each.ids for each in encoded], np.int64),
        "attention_mask": np.array([each.attention_mask for each in encoded], np.int64),
    }
