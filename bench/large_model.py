"""Weights alone on a model larger than memory: wall time beside reading and copying the file, and peak memory.

    python -m bench.large_model /folder/with/space --layers 32

The model is shaped like a language model of 8 billion parameters in float32 (32 layers and two tables: 32.1 GB in
one data file), filled with blocks of normal numbers that are repeated from different places. Every measurement is a
fresh process that begins with the file out of the page cache, and ends with its output on the disk (fsync). What is
written is removed at once; at most the model and one copy of it exist at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

_HIDDEN, _WIDE, _NARROW, _WORDS = 4096, 14336, 1024, 128256
_BLOCK = 1 << 25
_PRESETS = ("BF16_WO", "INT8_WO", "INT4_WO", "MATMUL_NBITS")

_RUN = """
import json, resource, sys, time
start = time.perf_counter()
import quarkfast
result = quarkfast.quantize(sys.argv[1], sys.argv[2], sys.argv[3])
seconds = time.perf_counter() - start
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "peak": used.ru_maxrss * 1024,
                  "written": result.summary.bytes_after}))
"""


def make_model(folder: Path, layers: int) -> Path:
    """Write the model and its data, and return its path."""
    shapes: dict[str, tuple[int, int]] = {"table": (_WORDS, _HIDDEN)}
    lines = ["h0 = Gather (table, x)"]
    for i in range(layers):
        for name, shape in (("q", _HIDDEN), ("k", _NARROW), ("v", _NARROW), ("o", _HIDDEN), ("g", _WIDE), ("u", _WIDE)):
            shapes[f"{name}{i}_w"] = (_HIDDEN, shape)
        shapes[f"d{i}_w"] = (_WIDE, _HIDDEN)
        lines += [f"{name}{i} = MatMul (h{i}, {name}{i}_w)" for name in "qkvgu"]
        lines += [
            f"c{i} = Concat <axis = -1> (k{i}, v{i}, k{i}, v{i})",
            f"a{i} = Add (q{i}, c{i})",
            f"o{i} = MatMul (a{i}, o{i}_w)",
            f"m{i} = Mul (g{i}, u{i})",
            f"d{i} = MatMul (m{i}, d{i}_w)",
            f"h{i + 1} = Add (o{i}, d{i})",
        ]
    shapes["head_w"] = (_HIDDEN, _WORDS)
    lines.append(f"y = MatMul (h{layers}, head_w)")
    graph = onnx.parser.parse_graph(f"g (int64[N] x) => (float[N, {_WORDS}] y) {{ {' '.join(lines)} }}")
    offset = 0
    for name, shape in shapes.items():
        tensor = graph.initializer.add(name=name, data_type=onnx.TensorProto.FLOAT, dims=shape)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        size = 4 * shape[0] * shape[1]
        for key, value in (("location", "large.onnx.data"), ("offset", str(offset)), ("length", str(size))):
            tensor.external_data.add(key=key, value=value)
        offset += size
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    path = folder / "large.onnx"
    onnx.save(model, path)
    with path.with_suffix(".onnx.data").open("wb") as file:
        for piece in _numbers(offset // 4):
            file.write(piece.data)
        file.flush()
        os.fsync(file.fileno())
    return path


def _numbers(count: int) -> Iterator[NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    block = rng.standard_normal(_BLOCK, np.float32) * np.float32(0.02)
    while count:
        start = int(rng.integers(0, _BLOCK // 2))
        piece = block[start : start + min(_BLOCK // 2, count)]
        count -= piece.size
        yield piece


def forget(path: Path) -> None:
    """Ask the system to drop the file from the page cache."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def timed(command: str) -> float:
    """Return the seconds that a shell command takes."""
    start = time.perf_counter()
    subprocess.run(command, shell=True, check=True)
    return time.perf_counter() - start


def measure(model: Path, preset: str) -> dict[str, object]:
    """Store the model's weights in a fresh process and return its figures."""
    data, output = model.with_suffix(".onnx.data"), model.with_name("small.onnx")
    forget(data)
    command = [sys.executable, "-c", _RUN, str(model), str(output), preset]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    result = output.with_suffix(".onnx.data")
    forget(result)
    copy = model.with_name("copy")
    figures["copy_of_result"] = timed(f"cp {result} {copy} && sync {copy}")
    for path in (output, result, copy):
        path.unlink()
    return figures


def main() -> None:
    """Make the model, time reading and copying it, and each preset; print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--presets", nargs="*", default=_PRESETS)
    given = parser.parse_args()
    start = time.perf_counter()
    model = make_model(given.folder, given.layers)
    data = model.with_suffix(".onnx.data")
    try:
        size = data.stat().st_size
        print(f"model: {size / 1e9:.1f} GB, written in {time.perf_counter() - start:.0f} s", flush=True)
        forget(data)
        read = timed(f"cat {data} > /dev/null")
        forget(data)
        copy = model.with_name("copy")
        copied = timed(f"cp {data} {copy} && sync {copy}")
        copy.unlink()
        print(f"read: {read:.1f} s ({size / read / 1e9:.2f} GB/s); cp and sync: {copied:.1f} s", flush=True)
        print(f"load average: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", flush=True)
        print("| preset | seconds | of cp | of read + write | CPU seconds | peak memory | written |")
        print("| :-- | --: | --: | --: | --: | --: | --: |", flush=True)
        for preset in given.presets:
            f = measure(model, preset)
            seconds, written = float(str(f["seconds"])), int(str(f["written"]))
            # What a copy of the result takes beyond reading it at the model's rate is writing.
            write = max(float(str(f["copy_of_result"])) - written / size * read, written / size * (copied - read))
            cells = (
                f"{seconds:.1f}", f"{seconds / copied:.2f}", f"{seconds / (read + write):.2f}", f"{f['cpu']:.1f}",
                f"{int(str(f['peak'])) / 1e6:.0f} MB", f"{written / 1e9:.1f} GB",
            )  # fmt: skip
            print(f"| {preset} | {' | '.join(cells)} |", flush=True)
    finally:
        model.unlink()
        data.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
