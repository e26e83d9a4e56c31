"""Quantizes SmolLM2-135M in each layout, loads it in its runtimes, and prints a table; fails where one does not load.

    python -m tests.consumers transformers llama.cpp [--rows 16] [--text FILE] [--dither 1] [--keep FOLDER]
    python -m tests.consumers vllm

Each folder is loaded in a process of its own: what one runtime holds, another would miss.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from pydoc_data.topics import topics

from quarkfast.checkpoint import GGUF_PRESETS, quantize_checkpoint
from tests.consumers import runtimes
from tests.consumers.smollm2 import write_smollm2

LENGTH = 512
# Runtime -> layouts, presets and methods.
RUNS = {
    "transformers": [
        ("compressed-tensors", "int4_wo_64", "minmax"),
        ("compressed-tensors", "int4_wo_64", "mse"),
        ("compressed-tensors", "uint4_wo_64", "minmax"),
        ("compressed-tensors", "uint4_wo_64", "mse"),
        ("compressed-tensors", "int8", "minmax"),
        ("compressed-tensors", "ptpc_fp8", "minmax"),
        ("safetensors", "bfloat16", "minmax"),
    ],
    "vllm": [
        ("compressed-tensors", "int4_wo_64", "minmax"),
        ("compressed-tensors", "int8", "minmax"),
        ("compressed-tensors", "ptpc_fp8", "minmax"),
        ("quark", "ptpc_fp8", "minmax"),
        ("quark", "int4_wo_64", "minmax"),
        ("fp8", "fp8", "minmax"),
        ("gptq", "int4_wo_64", "minmax"),
        ("awq", "uint4_wo_64", "minmax"),
    ],
    "llama.cpp": [("gguf", preset, "minmax") for preset in GGUF_PRESETS],
}
RUNTIMES = {"transformers": runtimes.in_transformers, "vllm": runtimes.in_vllm}


def main() -> int:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.consumers")
    parser.add_argument("runtimes", nargs="+", choices=RUNS)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--text", type=Path, help="what perplexity is of; Python's own reference by default")
    parser.add_argument("--dither", type=float, default=0.0)
    parser.add_argument("--keep", type=Path, help="a folder for the checkpoints")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(load(given.runtimes[0], given.one, given)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        source = write_smollm2(folder / "source", given.dither)
        failed = 0
        for runtime in given.runtimes:
            rows = [("source", "float32", "minmax"), *RUNS[runtime]] if runtime in RUNTIMES else RUNS[runtime]
            for layout, preset, method in rows:
                path, size = source, (source / "model.safetensors").stat().st_size
                if layout != "source":
                    path = folder / f"{layout}_{preset}_{method}"
                    size = quantize_checkpoint(source, path, preset, layout, method=method, force=True).output_bytes
                words = [
                    sys.executable,
                    "-m",
                    "tests.consumers",
                    runtime,
                    "--one",
                    str(path),
                    "--rows",
                    str(given.rows),
                ]
                words += ["--text", str(given.text)] if given.text else []
                done = subprocess.run(words, capture_output=True, text=True, check=False)
                said = done.stdout.strip().splitlines()[-1] if done.returncode == 0 else done.stderr.strip()[-300:]
                failed += done.returncode != 0
                print(f"{runtime} | {layout} {preset} {method} | {size / 1e6:.0f} MB | {said}", flush=True)
        return int(failed > 0)


def load(runtime: str, path: Path, given: argparse.Namespace) -> list[object]:
    """What a runtime goes on with and, where it tells, the perplexity."""
    if runtime == "llama.cpp":
        return [runtimes.in_llama_cpp(path)]
    text = given.text.read_text(encoding="utf-8") if given.text else " ".join(topics.values())
    return list(RUNTIMES[runtime](path, runtimes.rows_of_text(path, text, given.rows, LENGTH)))


if __name__ == "__main__":
    sys.exit(main())
