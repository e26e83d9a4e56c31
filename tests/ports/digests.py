"""Digests of what must be the same bytes on every machine, and of what need not be.

``python -m tests.ports.digests FILE`` writes a line each: kernels (tests/kernels/every_kernel.py), graphs that are
quantized by drawn statistics, and outputs, which are onnxruntime's sums and differ between architectures.
``python -m tests.ports.digests FILE OTHER`` compares two such files.
"""

from __future__ import annotations

import hashlib
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kernels.every_kernel import ROWS
from quarkfast import ort
from tests.ports.cases import PRESETS, float_models, with_values
from tests.recorded.cases import Case, hash_of, quantized


def kernels() -> Iterator[str]:
    """Yields a line for each kernel: what it makes of its row's input."""
    for row in ROWS:
        x = row.source(np.random.default_rng(zlib.crc32(row.name.encode())))
        made = row.run(x, np.empty(row.out_size(x.size), row.out), 0)
        yield f"kernel {row.name} {_digest(made)}"


def graphs() -> Iterator[str]:
    """Yields a line for each model in each preset, and one for what it computes."""
    for name, path in float_models().items():
        for preset in PRESETS:
            case = Case(f"{name}-{preset}", path, preset)
            yield f"graph {case.name} {hash_of(case)}"
            model = quantized(case)
            session = ort.inference_session(model.SerializeToString(), ort.session_options(threads=1))
            outputs = session.run(None, dict(with_values(case.name, model).feed))
            yield f"output {case.name} {_digest(*outputs)}"


def _digest(*arrays: object) -> str:
    content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    return hashlib.sha256(content).hexdigest()[:16]


def compare(path: Path, other: Path) -> None:
    """Says how many lines of each kind are equal; ends the process where a kernel or a graph is not."""
    lines, others = ([line.split() for line in each.read_text(encoding="utf-8").splitlines()] for each in (path, other))
    if [line[:2] for line in lines] != [line[:2] for line in others]:
        sys.exit(f"tests.ports.digests: expected the rows of {path}, got others in {other}")
    total = Counter(line[0] for line in lines)
    different = [line[:2] for line, another in zip(lines, others, strict=True) if line != another]
    for kind, count in total.items():
        equal = count - sum(each[0] == kind for each in different)
        print(f"{kind}s: {equal} of {count} equal")
    if wrong := [name for kind, name in different if kind != "output"]:
        sys.exit(f"tests.ports.digests: expected equal bytes, got others in {wrong}")


def main(path: Path) -> None:
    """Writes the lines."""
    path.write_text("".join(f"{line}\n" for lines in (kernels(), graphs()) for line in lines), encoding="utf-8")


if __name__ == "__main__":
    (compare if len(sys.argv) > 2 else main)(*map(Path, sys.argv[1:]))
