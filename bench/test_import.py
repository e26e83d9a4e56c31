"""What `import quarkfast` costs: fresh interpreters that import it, NumPy alone, or nothing, in turn."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

STATEMENTS = {
    "nothing": "pass",
    "numpy": "import numpy",
    "ml_dtypes": "import ml_dtypes",
    "quarkfast": "import quarkfast",
}
ROUNDS = 15


def start(statement: str) -> float:
    """Seconds of a fresh interpreter that runs the statement."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - begin


def test_import(benchmark: Any) -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, quarkfast; print(*sys.modules)"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"onnx", "onnxruntime", "onnx_ir", "torch"} & set(loaded)
    seconds: dict[str, list[float]] = {name: [] for name in STATEMENTS}

    def others() -> None:
        for name in STATEMENTS:
            if name != "quarkfast":
                seconds[name].append(start(STATEMENTS[name]))

    benchmark.group = "import"
    benchmark.pedantic(lambda: start(STATEMENTS["quarkfast"]), setup=others, rounds=ROUNDS)
    if benchmark.stats is None:
        return
    seconds["quarkfast"] = benchmark.stats.stats.data
    benchmark.extra_info.update(
        kind="import",
        modules=len(loaded),
        seconds={name: {"min": min(each), "median": statistics.median(each)} for name, each in seconds.items()},
    )
