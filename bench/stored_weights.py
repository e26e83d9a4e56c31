"""Weights alone, by ways of rounding: ``python -m bench.stored_weights SHARED MINILM TOKENIZER [--only MODEL]``.

SHARED holds ``models/`` and ``data/``, MINILM is the sentence encoder, TOKENIZER its ``tokenizer.json``. Prints a
Markdown table. Each row is a process of its own, so that the peak of its memory is its own; the processor time is that
of the quantization, the figures are those of models run with exact sums.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import quarkfast
from bench.data.subjects import subjects

CASES: Mapping[str, Mapping[str, tuple[str, dict[str, Any]]]] = {
    "resnet20_cifar10": {
        "INT8_WO, `weight_type=int4`": ("INT8_WO", {"weight_type": "int4"}),
        "INT8_WO": ("INT8_WO", {}),
    },
    "minilm": {
        "INT4_WO": ("INT4_WO", {}),
        "MATMUL_NBITS": ("MATMUL_NBITS", {}),
        "INT8_WO": ("INT8_WO", {}),
    },
}
ROUNDINGS = ("nearest", "gptq", "descent")


def row(paths: tuple[Path, Path, Path], model: str, case: str, rounding: str) -> str:
    """Returns one row of the table."""
    subject, (preset, options) = subjects(*paths)[model](), CASES[model][case]
    start = time.process_time()
    result = quarkfast.quantize(subject.model, None, preset, subject.calibration, rounding=rounding, **options)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    figure, ratios = subject.score(subject.outputs(result.model_bytes), subject.outputs(subject.model))
    ratio = " / ".join(f"{each:.1f}" for each in ratios)
    return f"| {model}, {case} | {rounding} | {ratio} | {figure:.2f} {subject.unit} | {seconds:.1f} | {peak} |"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("shared", "minilm", "tokenizer"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    print("| model, preset | rounding | dB | figure | processor seconds | peak MB |")
    print("| :-- | :-- | --: | --: | --: | --: |")
    for model, cases in CASES.items():
        for case in cases if given.only in model else ():
            for rounding in ROUNDINGS:
                context = multiprocessing.get_context("spawn")
                with ProcessPoolExecutor(1, mp_context=context) as pool:
                    paths = given.shared, given.minilm, given.tokenizer
                    print(pool.submit(row, paths, model, case, rounding).result(), flush=True)


if __name__ == "__main__":
    main()
