"""Runs batches of random calls, each in a process of its own, until the time is over; `models` mutated models."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from . import batch
from .targets import TARGETS

ROOT = Path(__file__).parents[2]


def run_batch(name: str, seed: int, begin: int, end: int, progress: Path) -> list[dict[str, Any]]:
    """Run cases in a child; return its findings, of which a crash is one."""
    code = "import sys; from tests.fuzz.batch import main; a = sys.argv; main(a[1], *map(int, a[2:5]), a[5])"
    command = [sys.executable, "-c", code, name, str(seed), str(begin), str(end), str(progress)]
    paths = os.pathsep.join([str(ROOT), *sys.path])
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}
    )
    findings = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode:
        index = int(progress.read_bytes()) if progress.exists() else begin
        problem = f"crash: exit status {done.returncode}: {done.stderr.strip()[-2000:]}"
        findings.append({"target": name, "seed": seed, "index": index, "problem": problem})
    return findings


def main() -> int:
    """Fuzz for the time asked; print each finding and how to run it again; return how many there were."""
    if sys.argv[1:2] == ["models"]:
        from .models import run_models

        return run_models(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=2000, help="cases a process")
    parser.add_argument("--target", choices=sorted(TARGETS), action="append", help="only these")
    parser.add_argument("--case", type=int, help="run only this case of the one target, in this process")
    options = parser.parse_args()
    names = options.target or list(TARGETS)
    if options.case is not None:
        print(batch.run(names[0], options.seed, options.case) or "nothing wrong")
        return 0
    count = cases = rounds = 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() - begin < options.seconds:
            for name in names:
                first = rounds * options.batch
                for finding in run_batch(name, options.seed, first, first + options.batch, Path(folder, "progress")):
                    count += 1
                    print(
                        f"{finding['target']}: {finding['problem']}\n"
                        f"    again: --target {name} --seed {options.seed} --case {finding['index']}",
                        flush=True,
                    )
                cases += options.batch
            rounds += 1
    seconds = time.monotonic() - begin
    rate = cases / seconds
    print(f"{cases} cases of {len(names)} targets in {seconds:.0f} s ({rate:.0f} a second), {count} findings")
    return min(count, 100)


if __name__ == "__main__":
    sys.exit(main())
