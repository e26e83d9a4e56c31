"""One batch of random calls in this process; findings are printed as lines of JSON, a crash is seen by the parent.

Three kinds of calls, by chance: a right one through the public function, whose result must be the reference's; one with
a wrong argument, which must raise TypeError or ValueError with a sentence, or else equal the reference; and one past
the public function, straight into the native binding with a wrong argument, which must not crash.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import quarkfast
from quarkfast import _core

from .draw import Draw
from .targets import TARGETS, Target

SENTENCE = re.compile(r"[^\n]*: expected [^\n]+, got [^\n]+")
KINDS = ("right", "wrong", "binding")
_PROBABILITIES = (0.45, 0.35, 0.2)


def case(name: str, seed: int, index: int) -> tuple[str, Draw, dict[str, Any]]:
    """The kind of a case, its source and the arguments of a right call."""
    d = Draw(seed, zlib.crc32(name.encode()), index)
    kind = str(d.rng.choice(KINDS, p=_PROBABILITIES))
    return kind, d, TARGETS[name].draw(d)


def run(name: str, seed: int, index: int) -> str | None:
    """Run one case; return what is wrong, or None."""
    kind, d, arguments = case(name, seed, index)
    with quarkfast.use_isa(d.pick(quarkfast.available_isas())):
        quarkfast.set_num_threads(d.pick((1, 1, 2, 3)))
        if kind == "binding":
            problem = None
            _call_binding(TARGETS[name], d, arguments)
        elif kind == "wrong":
            problem = _call_wrong(TARGETS[name], d, arguments)
        else:
            problem = _call_right(TARGETS[name], arguments)
    return problem or ("wrote beyond the output" if d.touched_canaries() else None)


def _call_right(target: Target, arguments: dict[str, Any]) -> str | None:
    expected = target.expected(**_copied(arguments))
    return _difference(target.call(**arguments), expected)


def _call_wrong(target: Target, d: Draw, arguments: dict[str, Any]) -> str | None:
    wrong = d.pick(list(arguments))
    arguments[wrong] = d.hostile(arguments[wrong])
    before = _copied(arguments)
    try:
        got = target.call(**arguments)
    except (TypeError, ValueError) as error:
        return None if SENTENCE.fullmatch(str(error)) else f"{wrong}: no sentence: {type(error).__name__}: {error}"
    # Accepted, so it must mean what it says.
    try:
        expected = target.expected(**before)
    except Exception as error:
        return f"{wrong}: accepted {before[wrong]!r:.80}, which the reference refuses: {type(error).__name__}: {error}"
    problem = _difference(got, expected)
    return problem and f"{wrong}: accepted {before[wrong]!r:.80}: {problem}"


def _call_binding(target: Target, d: Draw, arguments: dict[str, Any]) -> None:
    for name, given in recorded(lambda: target.call(**arguments)):
        if given:
            at = d.integer(0, len(given) - 1)
            given[at] = d.hostile(given[at])
        with contextlib.suppress(TypeError, ValueError):
            getattr(_core, name)(*given)


def recorded(action: Callable[[], Any]) -> list[tuple[str, list[Any]]]:
    """Run the action and return its calls of native functions: name and arguments."""
    calls: list[tuple[str, list[Any]]] = []
    kernels = {name: getattr(_core, name) for name in dir(_core) if not name.startswith("_")}

    def recorder(name: str) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            calls.append((name, list(given)))
            return kernels[name](*given)

        return call

    try:
        for name, kernel in kernels.items():
            if not isinstance(kernel, type):
                setattr(_core, name, recorder(name))
        action()
    finally:
        for name, kernel in kernels.items():
            setattr(_core, name, kernel)
    return calls


def _copied(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()}


def _difference(got: Any, expected: Any) -> str | None:
    if not isinstance(expected, np.ndarray | np.generic):
        return None if got == expected else f"expected {expected!r:.200}, got {got!r:.200}"
    if not isinstance(got, np.ndarray) or (got.dtype, got.shape) != (expected.dtype, expected.shape):
        return f"expected {expected.dtype} {expected.shape}, got {getattr(got, 'dtype', None)} {np.shape(got)}"
    return None if got.tobytes() == expected.tobytes() else "other values than the reference"


def main(name: str, seed: int, begin: int, end: int, progress: str) -> None:
    """Run cases [begin, end); the index of the running one stands in the progress file, for a parent to read."""
    with Path(progress).open("wb", buffering=0) as file:
        for index in range(begin, end):
            os.pwrite(file.fileno(), b"%12d" % index, 0)
            try:
                problem = run(name, seed, index)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            if problem is not None:
                print(json.dumps({"target": name, "seed": seed, "index": index, "problem": problem}), flush=True)
