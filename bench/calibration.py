"""What observing costs on top of inference: ``python -m bench.calibration SHARED MODEL``.

Both run the prepared model (BatchNormalization folded) in batches of 32 from session creation to the last result; the
observed one has an Observe operator behind every activation that the preset A8W8 quantizes. Times come from one process
in which the two take turns; memory from a fresh process each. Prints a Markdown table.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.accuracy import images
from quarkfast import ort
from quarkfast.calibration import observe
from quarkfast.config import find_preset
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.prepare import prepare
from quarkfast.qdq import place

SAMPLES = (16, 64, 256, 512)
ROUNDS = 9


def jobs(shared: Path, model: str, count: int) -> tuple[dict[str, Callable[[], object]], int]:
    """Returns plain inference and observation as functions, and the number of observed tensors."""
    x, _ = images(shared / "data" / "cifar10_calib.npz", count)
    feeds = [{"input": x[start : start + 32]} for start in range(0, len(x), 32)]
    prepared = prepare(load_model(shared / "models" / f"{model}.onnx"), 13)
    tensors = place(prepared, find_preset("A8W8")).observed
    data = serialize(prepared)

    def plain() -> None:
        session = ort.inference_session(data)
        for feed in feeds:
            ort.run(session, feed)

    return {"plain": plain, "observed": lambda: observe(prepared, tensors, iter(feeds))}, len(tensors)


def seconds(job: Callable[[], object]) -> float:
    """Returns the wall time of one call."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def peak_megabytes(shared: Path, model: str, count: int, job: str) -> float:
    """Returns the peak resident memory of a process that does nothing but prepare and run one job."""
    command = [sys.executable, "-m", "bench.calibration", str(shared), model, str(count), job]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Prints the table, or in a child process the memory of one job."""
    shared, model = Path(sys.argv[1]), sys.argv[2]
    if len(sys.argv) > 3:
        jobs(shared, model, int(sys.argv[3]))[0][sys.argv[4]]()
        # Not getrusage: its maximum counts the parent's memory too, which the child had for a moment before exec.
        status = Path("/proc/self/status").read_text()
        print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)
        return
    print("| samples | tensors | plain s | observed s | ratio | plain MB | observed MB | ratio |")
    print("| --: | --: | --: | --: | --: | --: | --: | --: |")
    for count in SAMPLES:
        work, tensors = jobs(shared, model, count)
        rounds = [{name: seconds(job) for name, job in work.items()} for _ in range(ROUNDS)]
        plain, observed = (min(each[name] for each in rounds) for name in work)
        memory = [peak_megabytes(shared, model, count, name) for name in work]
        print(
            f"| {count} | {tensors} | {plain:.3f} | {observed:.3f} | {observed / plain:.2f} "
            f"| {memory[0]:.0f} | {memory[1]:.0f} | {memory[1] / memory[0]:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
