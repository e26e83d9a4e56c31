"""Mutated models over every verb, each case in a process of its own that a crash, time and memory end.

A case may end in success or in one sentence with a documented exit status; a traceback, a signal, a limit that is hit
and "any other failure" are findings, and their model is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import resource
import signal
import time
import traceback
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError

import quarkfast
from quarkfast.cli import main as command
from quarkfast.cli.exit_codes import ExitCode
from quarkfast.graph.shape_inference import protos_of

from .model_seeds import write_seeds
from .mutations import mutate, mutate_bytes

__all__ = ["Found", "run_cases", "run_models"]

_MEMORY = 12 << 30
_SECONDS = 90
_CONVERSIONS = (
    ("bfloat16",), ("bfp16",), ("float32",), ("opset", "--to", "21"), ("opset", "--to", "13"), ("channels-last",),
    ("standard-qdq",), ("custom-qdq",), ("custom-domain", "--to", "com.vai.quantize"), ("remove-qdq",),
    ("fixed-shapes", "--shape", "x=1,3,8,8"), ("fixed-inputs", "--input", "x=1"),
)  # fmt: skip
_EXTRAS: tuple[tuple[str, ...], ...] = (
    (), (), (), ("--strict",), ("--verify",), ("--min-sqnr", "30"), ("--per-channel",), ("--report", "r.html"),
)  # fmt: skip


_SILENT = (ExitCode.OK, ExitCode.BROKEN_RULE, ExitCode.BELOW)
_NOT_WRITTEN = (DecodeError, ValueError, TypeError, AttributeError)


@dataclass(frozen=True)
class Found:
    """How a case ended: `problem` is empty where it ended well."""

    index: int
    seed: str
    verb: str
    problem: str
    megabytes: int
    seconds: float


def verbs(rng: np.random.Generator, sound: Path) -> list[list[str]]:
    """Draws the command lines of a case: what only reads, and two of those that run the model."""
    preset = lambda: str(rng.choice(list(quarkfast.PRESETS)))  # noqa: E731
    random = ["random", "--samples", "3"]
    extra = list(_EXTRAS[int(rng.integers(len(_EXTRAS)))])
    heavy = [
        ["quantize", "m.onnx", "-o", "q.onnx", "-f", "-p", preset(), "--calibration-data", *random, *extra],
        ["quantize", "m.onnx", "-o", "q.onnx", "-f", "-p", preset(), "--calibration-data", *random],
        ["quantize", "m.onnx", "-o", "q.onnx", "-f", "-p", preset()],
        ["calibrate", "m.onnx", "-o", "c.json", "-f", "--calibration-data", *random],
        ["compare", "m.onnx", "m.onnx", "--data", *random],
        ["compare", str(sound), "m.onnx", "--data", *random],
        ["compare", "m.onnx", str(sound), "--data", *random],
        ["evaluate", "m.onnx", str(sound), "--data", *random],
        ["evaluate", str(sound), "m.onnx", "--data", *random],
        *(["convert", kind, "m.onnx", "v.onnx", *more] for kind, *more in _CONVERSIONS),
    ]
    weights = np.array([6, 6, 3, 2, 1, 2, 1, 1, 1] + [0.3] * len(_CONVERSIONS))
    chosen = rng.choice(len(heavy), 2, replace=False, p=weights / weights.sum())
    target = str(rng.choice(list(quarkfast.TARGETS)))
    light = [["inspect", "m.onnx"], ["plan", "m.onnx", "-p", preset()], ["check", "m.onnx", "--target", target]]
    return [*light, *(heavy[int(each)] for each in chosen)]


def write_case(seeds: Path, seed: int, index: int, folder: Path) -> tuple[str, list[list[str]]]:
    """Writes the model of a case into `folder`; returns the seed's name with what was done, and the command lines."""
    rng = np.random.default_rng((zlib.crc32(b"models"), seed, index))
    names = sorted(each.name for each in seeds.iterdir())
    source = seeds / names[int(rng.integers(len(names)))]
    for each in source.iterdir():
        (folder / each.name).write_bytes(each.read_bytes())
    data, done = (source / "m.onnx").read_bytes(), ["bytes"]
    if rng.random() < 0.1:
        data = mutate_bytes(rng, data)
    else:
        model = onnx.ModelProto.FromString(data)
        try:
            done = mutate(rng, model)
            data = model.SerializeToString() if _may_end(model) else data
        except (
            DecodeError,
            ValueError,
            TypeError,
            AttributeError,
            onnx.onnx_cpp2py_export.checker.ValidationError,
        ) as error:
            done = [f"not mutated: {type(error).__name__}: {error}"]
    (folder / "m.onnx").write_bytes(data)
    return f"{source.name}: {', '.join(done)}", verbs(rng, source / "m.onnx")


def _may_end(model: onnx.ModelProto) -> bool:
    """Whether each Loop has a count: one without may run for ever, in any runtime, which no limit of a case tells."""
    loops = [node for graph in protos_of(model.graph) for node in graph.node if node.op_type == "Loop"]
    return all(node.input and node.input[0] for node in loops)


def _run_verbs(lines: list[list[str]], told: int) -> None:
    """Runs command lines in this process; writes the number of each, and what is wrong, to the descriptor `told`."""
    for number, line in enumerate(lines):
        os.write(told, json.dumps([number, ""]).encode() + b"\n")
        problem, output, errors = "", io.StringIO(), io.StringIO()
        try:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
                status = command(line)
            said = errors.getvalue().strip()
            sentence = said.splitlines()[-1] if said else ""
            if status == ExitCode.FAILURE or status not in tuple(ExitCode):
                problem = f"exit status {status}: {sentence[-300:]}"
            elif (
                status
                and not sentence.startswith("quarkfast: error: ")
                and status not in (ExitCode.BROKEN_RULE, ExitCode.BELOW)
            ):
                problem = f"exit status {status} without a sentence: {said[-300:]}"
        except BaseException as error:  # what a user would see as a traceback
            frames = traceback.extract_tb(error.__traceback__)
            ours = [each for each in frames if "quarkfast" in each.filename][-1:]
            at = " <- ".join(f"{Path(each.filename).name}:{each.lineno}" for each in (*frames[-1:], *ours))
            problem = f"{type(error).__name__}: {' '.join(str(error).split())[:200]} at {at}"
        os.write(told, json.dumps([number, problem]).encode() + b"\n")


def run_case(seeds: Path, seed: int, index: int, folder: Path) -> Found:
    """Runs a case in a child and waits for it."""
    name, lines = write_case(seeds, seed, index, folder)
    begin, (reads, writes) = time.monotonic(), os.pipe()
    child = os.fork()
    if not child:
        os.close(reads)
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(_SECONDS)
        try:
            _run_verbs(lines, writes)
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        events = [json.loads(line) for line in pipe if line.endswith(b"\n")]
    _, status, used = os.wait4(child, 0)
    problems = [(lines[number], problem) for number, problem in events if problem]
    if os.WIFSIGNALED(status):
        caught = signal.Signals(os.WTERMSIG(status)).name
        problems.append(
            (lines[events[-1][0] if events else 0], f"{'time' if caught == 'SIGALRM' else 'signal'}: {caught}")
        )
    return Found(
        index, name, "; ".join(" ".join(line) for line, _ in problems), "; ".join(problem for _, problem in problems),
        used.ru_maxrss // 1024, time.monotonic() - begin,
    )  # fmt: skip


def run_cases(seed: int, begin: int, end: int, folder: Path) -> list[Found]:
    """Runs cases [begin, end) within `folder`; returns how each ended, models of findings kept in `folder`/kept."""
    seeds = make_seeds(folder)
    found = []
    for index in range(begin, end):
        place = folder / f"case_{seed}_{index}"
        place.mkdir()
        result = run_case(seeds, seed, index, place)
        found.append(result)
        if result.problem:
            print(f"{index} ({result.seed}): {result.verb}\n    {result.problem}", flush=True)
            (folder / "kept").mkdir(exist_ok=True)
            (folder / "kept" / f"{seed}_{index}.onnx").write_bytes((place / "m.onnx").read_bytes())
        for each in place.iterdir():
            each.unlink()
        place.rmdir()
    return found


def make_seeds(folder: Path) -> Path:
    """Has a child write the seeds, unless they are there: a session's threads do not survive a fork."""
    seeds = folder / "seeds"
    if not seeds.exists():
        made = folder / f"making_{os.getpid()}"
        made.mkdir(parents=True)
        child = os.fork()
        if not child:
            status = 1
            try:
                write_seeds(made)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        if status:
            raise RuntimeError("the seeds could not be made")
        made.rename(seeds)
    return seeds


def run_models(arguments: list[str]) -> int:
    """Runs what `python -m tests.fuzz models` asks for; prints findings and figures, returns their number."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz models", description=__doc__)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz_models"), help="for seeds and kept models")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the cases")
    options = parser.parse_args(arguments)

    folder, first, last = options.folder.resolve(), options.first, options.first + options.cases
    begin = time.monotonic()
    make_seeds(folder)
    share = -(-options.cases // options.jobs)
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        parts = [(options.seed, start, min(start + share, last), folder) for start in range(first, last, share)]
        found = [each for part in pool.starmap(run_cases, parts) for each in part]
    wrong = [each for each in found if each.problem]
    signals = sum("signal: " in each.problem for each in wrong)
    limits = sum("time: " in each.problem for each in wrong)
    print(
        f"{len(found)} cases in {time.monotonic() - begin:.0f} s: {len(wrong)} findings, of which {signals} signals "
        f"and {limits} beyond {_SECONDS} s; peak memory {max(each.megabytes for each in found)} MB, longest case "
        f"{max(each.seconds for each in found):.1f} s"
    )
    return min(len(wrong), 100)
