"""What a quantization takes beside inference: ``python -m bench.memory WORK SHARED MINILM TOKENIZER TOOL=PYTHON...``.

SHARED holds ``models/`` and ``data/``, MINILM is the sentence encoder, TOKENIZER its ``tokenizer.json``; the data of
each model is written to ``WORK/samples/MODEL.npz``, 64 samples (text_yolox: 32 scenes, each twice). TOOL=PYTHON is as
in `bench.end_to_end`. Each process quantizes to A8W8, one row a run for the peers, as their examples do. The first row
of a model is `bench.plain`, by the first PYTHON: plain onnxruntime, the same samples, one row a run, which it
reads one by one. Idle threads of ONNX Runtime sleep everywhere. Prints processor seconds and peak memory, the least of
`--rounds` rounds in which the tools take turns, and each as a multiple of plain inference.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.end_to_end import Cost, command, run

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAMPLES = 64
MODELS = ("text_yolox", "superres", "resnet56_cifar10", "minilm")
PLAIN = Path(__file__).with_name("plain.py")


def samples(model: str, shared: Path, tokenizer: Path) -> Mapping[str, NDArray[Any]]:
    """Returns the samples of a model by input."""
    import numpy as np

    from bench.data.sentences import SENTENCES
    from bench.data.subjects import MEAN, STD, _tokens

    def load(name: str, field: str) -> NDArray[np.float32]:
        with np.load(shared / "data" / name) as data:
            return data[field].astype(np.float32)

    def scenes() -> Mapping[str, NDArray[Any]]:
        images = load("text_scenes.npz", "images")[: SAMPLES // 2]
        return {"images": np.concatenate([images, images])}

    def mosaics() -> Mapping[str, NDArray[Any]]:
        colors = np.concatenate([load(name, "x") for name in ("cifar10_calib.npz", "cifar10_eval.npz")]) / 255
        grey = np.tensordot(np.float32([0.299, 0.587, 0.114]), colors, axes=(0, 1))
        tiles = grey[np.arange(SAMPLES * 49) % len(grey)].reshape(-1, 7, 7, 32, 32).swapaxes(2, 3)
        return {"input": tiles.reshape(-1, 1, 224, 224).astype(np.float32)}

    made: Mapping[str, Callable[[], Mapping[str, NDArray[Any]]]] = {
        "text_yolox": scenes,
        "superres": mosaics,
        "resnet56_cifar10": lambda: {"input": (load("cifar10_calib.npz", "x")[:SAMPLES] / 255 - MEAN) / STD},
        "minilm": lambda: _tokens(tokenizer, SENTENCES[:SAMPLES]),
    }
    return made[model]()


def rows(work: Path, models: Mapping[str, Path], tools: dict[str, str], rounds: int, method: str) -> Iterator[str]:
    """Yields the lines of the table."""
    out = work / "memory"
    out.mkdir(parents=True, exist_ok=True)
    python = next(iter(tools.values()))
    for name, model in models.items():
        data = work / "samples" / f"{name}.npz"
        jobs = {"inference": [python, str(PLAIN), str(model), str(data)]}
        jobs |= {tool: command(tool, path, model, data, out, method) for tool, path in tools.items()}
        found: dict[str, list[Cost]] = {tool: [] for tool in jobs}
        for _ in range(rounds):
            for tool, job in jobs.items():
                found[tool].append(run(job))
        best = {tool: Cost(*(min(values) for values in zip(*costs, strict=True))) for tool, costs in found.items()}
        plain = best["inference"]
        for tool, cost in best.items():
            memory, time = cost.megabytes / plain.megabytes, cost.cpu / plain.cpu
            yield f"| {name} | {tool} | {cost.cpu:.2f} | {time:.2f} | {cost.megabytes:.0f} | {memory:.2f} |"


def main() -> None:
    """Prints the table. Samples are written by a process of its own, as the peak of a child counts its parent's."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("work", "shared", "minilm", "tokenizer"):
        parser.add_argument(name, type=Path)
    parser.add_argument("tools", nargs="*", help="TOOL=PYTHON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--method", default="minmax", choices=("minmax", "percentile"))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--write", help="write the samples of this model and end")
    given = parser.parse_args()
    if given.write:
        import numpy as np

        (given.work / "samples").mkdir(parents=True, exist_ok=True)
        np.savez(given.work / "samples" / f"{given.write}.npz", **samples(given.write, given.shared, given.tokenizer))
        return
    models = {name: given.shared / "models" / f"{name}.onnx" for name in given.models.split(",")}
    models |= {"minilm": given.minilm} if "minilm" in models else {}
    for name in models:
        if not (given.work / "samples" / f"{name}.npz").exists():
            subprocess.run([sys.executable, "-m", "bench.memory", *sys.argv[1:5], "--write", name], check=True)
    print("| model | tool | CPU s | of inference | peak MB | of inference |")
    print("| :-- | :-- | --: | --: | --: | --: |")
    tools = dict(each.split("=", 1) for each in given.tools)
    for row in rows(given.work, models, tools, given.rounds, given.method):
        print(row, flush=True)


if __name__ == "__main__":
    main()
