"""Runs models on Windows' onnxruntime.dll and quarkfast.dll and compares the bytes with those of Linux.

``python -m tests.ports.windows BUILD``: BUILD is what CMake made by cmake/mingw.cmake with QUARKFAST_BUILD_TESTS. Needs
wine64. onnxruntime.dll comes from the wheel of the version that is installed here. `nox -s windows` does all of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path

import numpy as np

import quarkfast
from quarkfast import _core, ort
from tests.ort.models import one_node
from tests.ports import tensor_files
from tests.ports.cases import Case, float_models, operator_cases, preset_cases, recorded_cases

# The oldest first, so that what every processor runs is what fails first.
ISAS = ("x86-64-v2", "x86-64-v3")
THREADS = (1, 2)


def fetch_runtime(folder: Path) -> None:
    """Puts onnxruntime.dll into a folder."""
    wanted = f"onnxruntime=={metadata.version('onnxruntime')}"
    options = ["--no-deps", "--only-binary=:all:", "--platform", "win_amd64", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", *options, wanted], check=True)
    (wheel,) = folder.glob("onnxruntime-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (folder / "onnxruntime.dll").write_bytes(archive.read("onnxruntime/capi/onnxruntime.dll"))


def write_cases(folder: Path, cases: list[Case]) -> None:
    """Writes what tests/cpp/windows_sessions.cc reads."""
    lines = []
    for case in cases:
        (folder / f"{case.name}.onnx").write_bytes(case.model.SerializeToString())
        for index, array in enumerate(case.feed.values()):
            tensor_files.write(folder / f"{case.name}.{index}.in", array)
        outputs = [output.name for output in case.model.graph.output]
        lines.append(" ".join([case.name, str(len(case.feed)), *case.feed, str(len(outputs)), *outputs]))
    (folder / "cases.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def expected(cases: list[Case], threads: int) -> dict[str, bytes]:
    """Returns what the files of the outputs must hold: what Linux makes of the models."""
    made = {}
    for case in cases:
        session = ort.inference_session(case.model.SerializeToString(), ort.session_options(threads=threads))
        for index, array in enumerate(session.run(None, dict(case.feed))):
            made[f"{case.name}.{index}.out"] = tensor_files.content(array)
    return made


def run(folder: Path, *command: str, isa: str) -> str:
    """Runs a program under Wine in the folder and returns what it prints."""
    environment = os.environ | {"QUARKFAST_ISA": isa, "WINEPREFIX": str(folder / "wine"), "WINEDEBUG": "-all"}
    wine = shutil.which("wine64") or "wine"
    done = subprocess.run([wine, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"tests.ports.windows: {' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def compare_models(folder: Path, cases: list[Case], isa: str, threads: int) -> str:
    """Runs all cases and returns a line about them; ends the process where a byte differs."""
    with quarkfast.use_isa(isa):
        wanted = expected(cases, threads)
    for name in wanted:
        (folder / name).unlink(missing_ok=True)
    run(folder, "windows_sessions.exe", str(threads), isa=isa)
    different = [name for name, content in wanted.items() if (folder / name).read_bytes() != content]
    if different:
        sys.exit(f"tests.ports.windows: {isa}, {threads} threads: expected Linux's bytes, got others in {different}")
    size = sum(map(len, wanted.values()))
    return f"{isa}, {threads} threads: {len(cases)} models, {len(wanted)} outputs, {size:,} bytes equal to Linux"


def compare_statistics(folder: Path, isa: str) -> str:
    """Lets the library gather statistics and returns a line about them; ends the process where a byte differs."""
    rng = np.random.default_rng(21)
    values = rng.standard_normal(1 << 20).astype(np.float32)
    collector = _core.Collector(1, histogram=True)
    collector.observe(0, values)
    seen, (counts, exponent) = collector.range(0), collector.histogram(0)
    head = np.float32([seen["min"], seen["max"]]).tobytes() + np.int64([seen["count"], exponent]).tobytes()
    wanted = 2 * (head + np.asarray(counts, np.uint64).tobytes())
    model = one_node("Observe", [values], domain="quarkfast", collector=1, slot=1)  # the first that is opened
    (folder / "observe.onnx").write_bytes(model.SerializeToString())
    tensor_files.write(folder / "observe.0.in", values)
    (folder / "statistics.out").unlink(missing_ok=True)
    told = run(folder, "windows_library.exe", isa=isa)
    if (folder / "statistics.out").read_bytes() != wanted:
        sys.exit(f"tests.ports.windows: {isa}: expected the statistics of Linux, got others")
    return f"{isa}: statistics of 2 threads and of a session, {len(wanted):,} bytes equal to Linux; {told}"


def main(build: Path) -> None:
    """Compares everything on every instruction set."""
    missing = [isa for isa in ISAS if isa not in quarkfast.available_isas()]
    if missing:
        sys.exit(f"tests.ports.windows: expected a processor of {missing}, got {quarkfast.available_isas()}")
    with tempfile.TemporaryDirectory(prefix="quarkfast-windows-") as name:
        folder = Path(name)
        fetch_runtime(folder)
        for made in (build / "quarkfast.dll", *(build / "tests" / "cpp").glob("windows_*.exe")):
            shutil.copy(made, folder)
        cases = [*operator_cases(), *recorded_cases(), *preset_cases()]
        write_cases(folder, cases)
        if "resnet20_cifar10" not in float_models():
            print("no folder of real models (QUARKFAST_SHARED): the demo's model alone stands for whole models")
        for isa in ISAS:
            print(compare_statistics(folder, isa), flush=True)
            for threads in THREADS:
                print(compare_models(folder, cases, isa, threads), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
