"""The standard's own test models, and what becomes of each in every preset.

onnx makes most of them itself (`onnx.backend.test.case.node`, one for each use of an operator, and once more with its
function written out); the others lie in the package, as do their inputs.
"""

from __future__ import annotations

import functools
import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases

import quarkfast
from quarkfast import ort
from quarkfast.errors import ModelError, QuarkfastError
from quarkfast.targets import TARGETS
from quarkfast.writers import lowest_opset

__all__ = ["Case", "Result", "has_type", "operators_of", "presets_of", "quantize_all", "standard_cases"]

_FOLDERS = ("simple", "pytorch-converted", "pytorch-operator")

# Presets by what writes them: every model is written in each of these ways, with one preset or more of each.
_WAYS = (
    ("A8W8", "A16W8", "U8S8", "DYNAMIC", "XINT8"),
    ("FP16", "BF16"),
    ("BFP16", "MX4", "MX6", "MX9", "MXINT8", "MXFP8E4M3", "MXFP8E5M2", "MXFP6E3M2", "MXFP6E2M3", "MXFP4E2M1"),
    ("INT8_WO", "INT4_WO", "MATMUL_NBITS"),
    ("BF16_WO", "FP16_WO"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A model of the standard and what its test feeds it; `names` are those of all tests that do so."""

    names: tuple[str, ...]
    model: bytes
    feed: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a model in a preset.

    Attributes:
        names: Of the tests that it stands for.
        preset: The preset; empty for the float model, which onnxruntime does not run.
        kind: "float" if it is not run, "exception", "refused", "rejected" if the result does not run, "lacking" if that
            is because the installed onnxruntime does not have a type of it, "other" if it gives something else than
            numbers near those of the float model, "copy" for an unchanged copy, or "close".
        text: The exception, or what is other.
        sqnr: Signal to quantization noise with exact sums in dB, of the worst output.
        notes: What the summary says, besides counts.
    """

    names: tuple[str, ...]
    preset: str
    kind: str
    text: str = ""
    sqnr: float = np.inf
    notes: tuple[str, ...] = field(default=())


def standard_cases() -> list[Case]:
    """Returns every test model of the installed onnx, once for all tests in which it is the same and reads the same."""
    found: dict[bytes, Case] = {}
    for name, model, feed in (*_node_cases(), *_stored_cases()):
        model.graph.name = "g"  # the only thing in which some differ
        data = model.SerializeToString(deterministic=True)
        key = hashlib.sha256(data + repr(sorted((key, _bytes(feed[key])) for key in feed)).encode()).digest()
        known = found.get(key)
        found[key] = Case((*(known.names if known else ()), name), data, feed)
    return list(found.values())


def operators_of(case: Case) -> tuple[str, ...]:
    """Returns the names of the operators of a case, each once and in order."""
    return tuple(sorted({node.op_type for node in onnx.ModelProto.FromString(case.model).graph.node}))


def presets_of(cases: list[Case]) -> list[tuple[str, ...]]:
    """Returns the presets of each case: the same operators meet every preset, and each case one preset of each way.

    Where there are fewer cases of the same operators than presets of a way, each has several of them.
    """
    alike: dict[tuple[str, ...], list[int]] = {}
    for index, case in enumerate(cases):
        alike.setdefault(operators_of(case), []).append(index)
    found: list[list[str]] = [[] for _ in cases]
    for (turn, indices), way in product(enumerate(alike.values()), _WAYS):
        for step in range(max(len(indices), len(way))):
            found[indices[step % len(indices)]].append(way[(turn + step) % len(way)])
    return [tuple(preset for preset in quarkfast.PRESETS if preset in presets) for presets in found]


def quantize_all(cases: list[Case]) -> list[Result]:
    """Returns what becomes of every case in its presets, with two processes where there are two processors."""
    processes = min(2, os.cpu_count() or 1)
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        return [result for results in pool.map(_quantize, cases, presets_of(cases), chunksize=8) for result in results]


def _node_cases() -> Iterator[tuple[str, onnx.ModelProto, dict[str, Any]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx's own, while it computes what it expects
        cases = collect_testcases(None)
    for case in cases:
        yield case.name, case.model, _feed(case.model, case.data_sets[0][0])


def _stored_cases() -> Iterator[tuple[str, onnx.ModelProto, dict[str, Any]]]:
    root = Path(onnx.backend.test.__file__).parent / "data"
    for folder in (path for name in _FOLDERS for path in sorted((root / name).iterdir())):
        model = onnx.load(folder / "model.onnx")
        files = sorted((folder / "test_data_set_0").glob("input_*.pb"))
        given = [_read(path, value.type) for path, value in zip(files, model.graph.input, strict=False)]
        yield f"{folder.parent.name}/{folder.name}", model, _feed(model, given)


def _read(path: Path, kind: onnx.TypeProto) -> Any:
    if kind.HasField("sequence_type"):
        return onnx.numpy_helper.to_list(onnx.SequenceProto.FromString(path.read_bytes()))
    if kind.HasField("optional_type"):
        return onnx.numpy_helper.to_optional(onnx.OptionalProto.FromString(path.read_bytes()))
    return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def _feed(model: onnx.ModelProto, given: Iterable[Any]) -> dict[str, Any]:
    constants = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input]
    given = list(given)
    if len(given) < len(names):  # old models list constants among their inputs
        names = [name for name in names if name not in constants]
    return {
        name: value if value is None or isinstance(value, list) else np.asarray(value)
        for name, value in zip(names, given, strict=False)
    }


def _bytes(value: Any) -> bytes:
    parts = [np.asarray(part) for part in (value if isinstance(value, list) else [value])]
    return b"".join(f"{part.dtype} {part.shape} {_content(part)!r}".encode() for part in parts)


def _content(array: np.ndarray) -> Any:
    return array.tolist() if array.dtype == object else array.tobytes()


@functools.cache
def has_type(data_type: int) -> bool:
    """Whether the installed onnxruntime loads a constant of one of onnx's types of tensors."""
    constant = onnx.TensorProto(name="c", data_type=data_type, dims=[0])
    graph = onnx.helper.make_graph([], "g", [], [onnx.helper.make_tensor_value_info("c", data_type, [0])], [constant])
    opsets = [onnx.helper.make_opsetid("", 21)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    try:
        ort.inference_session(model.SerializeToString(), ort.session_options(threads=1))
    except ModelError:
        return False
    return True


def _quantize(case: Case, presets: tuple[str, ...]) -> list[Result]:
    """Returns what becomes of one case; runs in another process."""
    try:
        expected = _run(case.model, case.feed, optimize=False)
    except (ModelError, RuntimeError) as error:  # the second from feeds of types that Python's door does not take
        return [Result(case.names, "", "float", " ".join(str(error).split()))]
    results, proto = [], onnx.ModelProto.FromString(case.model)
    done: set[tuple[str, int]] = set()
    for preset in presets:
        # Where a table has no rule for any operator of the model, it has none for another preset that needs the same
        # operator set, and both are the same copy: so are most of these models in most formats of blocks.
        table = _table_of(quarkfast.PRESETS[preset])
        if table not in done:
            result, ruled_out = _quantize_as(case, proto, preset, expected)
            results.append(result)
            if ruled_out:
                done.add(table)
    return results


def _table_of(scheme: quarkfast.Scheme) -> tuple[str, int]:
    """Returns what tells which operators a preset looks for, and the operator set that it converts to."""
    if scheme.weights_only:
        return (scheme.encoding if scheme.encoding == "cast" else scheme.name), 0
    return scheme.target, lowest_opset(scheme, TARGETS[scheme.target])


def _quantize_as(case: Case, proto: onnx.ModelProto, preset: str, expected: list[Any]) -> tuple[Result, bool]:
    """Returns the result, and whether the table of the preset's target has no rule for any operator of the model."""

    def told(kind: str, text: str = "", **more: Any) -> Result:
        return Result(case.names, preset, kind, " ".join(text.split()), **more)

    data = None if quarkfast.PRESETS[preset].weights_only else [case.feed]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", UserWarning)  # ours: of samples that are whole numbers, and the like
            result = quarkfast.quantize(proto, preset=preset, calibration_data=data)
    except QuarkfastError as error:
        return told("refused", str(error)), False
    except Exception as error:  # whatever it is, the test that counts them names it
        return told("exception", repr(error)), False
    if not result.summary.quantized:
        ruled_out = all("has no rule for" in node.reason for node in result.summary.left_float)
        return told("copy" if result.model_bytes == case.model else "other", "not an unchanged copy"), ruled_out
    notes = result.summary.notes
    try:
        found = _run(result.model_bytes, case.feed, optimize=False)
        _run(result.model_bytes, case.feed, optimize=True)
    except ModelError as error:
        types = {tensor.data_type for tensor in result.proto.graph.initializer}
        return told("rejected" if all(map(has_type, types)) else "lacking", str(error), notes=notes), False
    if objection := _objection(expected, found):
        return told("other", objection, notes=notes), False
    return told("close", sqnr=_sqnr(expected, found), notes=notes), False


def _run(model: bytes, feed: dict[str, Any], *, optimize: bool) -> list[Any]:
    options = ort.session_options(threads=1, optimize=optimize, spinning=False)
    return ort.run(ort.inference_session(model, options), feed)


def _objection(expected: list[Any], found: list[Any]) -> str:
    """Says in what, besides rounding, two lists of outputs differ; empty if in nothing."""
    if len(expected) != len(found):
        return f"{len(found)} outputs or elements of a sequence instead of {len(expected)}"
    for index, (a, b) in enumerate(zip(expected, found, strict=True)):
        if isinstance(a, list) and isinstance(b, list):
            objection = _objection(a, b)
        elif not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
            objection = "" if repr(a) == repr(b) else f"{b!r} instead of {a!r}"
        elif (a.dtype, a.shape) != (b.dtype, b.shape):
            objection = f"{b.dtype} {b.shape} instead of {a.dtype} {a.shape}"
        elif not _has_numbers(a):
            objection = "" if np.array_equal(a, b) else f"{b!r} instead of {a!r}"
        else:
            wrong = np.isfinite(a.astype(np.float64)) & ~np.isfinite(b.astype(np.float64))
            objection = f"NaN or infinity in {wrong.sum()} of {wrong.size} values" if wrong.any() else ""
        if objection:
            return f"output {index}: {objection}"
    return ""


def _sqnr(expected: list[Any], found: list[Any]) -> float:
    """Returns the least signal-to-noise ratio of any output, in dB; infinite where all are equal."""
    worst = np.inf
    for a, b in zip(expected, found, strict=True):
        if isinstance(a, list):
            worst = min(worst, _sqnr(a, b))
        elif isinstance(a, np.ndarray) and _has_numbers(a):
            finite = np.isfinite(a.astype(np.float64)) & np.isfinite(b.astype(np.float64))
            wanted, got = a[finite].astype(np.float64), b[finite].astype(np.float64)
            noise, signal = np.square(wanted - got).sum(), np.square(wanted).sum()
            if noise:
                worst = min(worst, 10 * np.log10(signal / noise) if signal else -np.inf)
    return float(worst)


def _has_numbers(array: np.ndarray) -> bool:
    return array.dtype.kind in "fiub"
