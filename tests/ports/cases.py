"""What must give the same bytes on every port: models of one operator, and whole models in presets."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

import quarkfast
from quarkfast.demo.data import MODEL
from support import operator_models
from tests.ort.fuzz import OLDER_NAMES
from tests.ort.models import one_node
from tests.ort.test_concurrency import OPERATORS, X
from tests.recorded.cases import built_cases, quantized

ROOT = Path(__file__).parents[2]
PRESETS = ("A8W8", "XINT8", "BF16", "BFP16", "MX9")
# Those whose models have operators of quarkfast.
OWN_OPERATORS = ("BF16", "BFP16", "MX9")


@dataclass(frozen=True)
class Case:
    """A model and what it is fed."""

    name: str
    model: onnx.ModelProto
    feed: Mapping[str, NDArray[Any]]


def operator_cases() -> Iterator[Case]:
    """Yields a model for each operator of quarkfast, by each of its names, over arrays longer than every lane.

    Observe is left out, as its model names a collector of the process that runs it.
    """
    compare = ("Compare", [X, X * np.float32(0.99)], {"domain": "quarkfast", "output": np.float64, "limit": 0.01})
    for name, (op, inputs, options) in {**OPERATORS, "compare": compare}.items():
        names = [(op, options.get("domain", "com.amd.quark"))]
        if op in OLDER_NAMES:
            names.append((OLDER_NAMES[op], "com.vai.quantize"))
        for each, domain in names:
            model = one_node(each, inputs, **(options | {"domain": domain}))
            yield Case(f"{name} {domain}".replace(" ", "_"), model, _feed(model, inputs))


def _feed(model: onnx.ModelProto, inputs: list[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    arrays = {f"x{index}": array for index, array in enumerate(inputs)}
    return {entry.name: arrays[entry.name] for entry in model.graph.input}


def recorded_cases() -> Iterator[Case]:
    """Yields the recorded models of one ONNX operator, in the presets that put operators of quarkfast around it."""
    for case in built_cases():
        operator, _, preset = case.name.rpartition("-")
        if operator in operator_models.OPERATORS and preset in OWN_OPERATORS:
            yield with_values(case.name, quantized(case))


def float_models() -> dict[str, Path]:
    """Returns the demo's model, and two real ones where their folder is there."""
    shared = Path(os.environ.get("QUARKFAST_SHARED", ROOT.parent / "shared")) / "models"
    real = {name: shared / f"{name}.onnx" for name in ("mnist", "resnet20_cifar10")}
    return {"demo": MODEL} | {name: path for name, path in real.items() if path.is_file()}


def preset_cases() -> Iterator[Case]:
    """Yields the float models in every preset of `PRESETS`."""
    for name, path in float_models().items():
        for preset in PRESETS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of random samples
                result = quarkfast.quantize(path, preset=preset, calibration_data="random", samples=4, strict=True)
            yield with_values(f"{name}-{preset}", result.proto)


def with_values(name: str, model: onnx.ModelProto) -> Case:
    """Returns a case that feeds values of a normal distribution, four rows where the model takes any number."""
    rng = np.random.default_rng(20)
    held = {tensor.name for tensor in model.graph.initializer}
    entries = {entry.name: entry.type.tensor_type for entry in model.graph.input if entry.name not in held}
    sizes = {entry: [size.dim_value or 4 for size in kind.shape.dim] for entry, kind in entries.items()}
    return Case(name, model, {entry: rng.standard_normal(each).astype(np.float32) for entry, each in sizes.items()})
