"""What it costs to know a histogram instead of the values: ``python -m bench.histogram_loss SHARED MINILM``.

For every tensor that A8W8 observes, each method runs twice: on the dyadic histogram, and slowly in NumPy on the values
(at most 2^18 of them a tensor, the same for both). Both ranges are held against the values: the excess is the squared
error, on the values, of the histogram's int8 scale over that of the values' own. Prints a Markdown table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.accuracy import images
from quarkfast import kernels, ort, qparams
from quarkfast.config import TensorSpec
from quarkfast.graph.load import load_model
from quarkfast.graph.save import serialize
from quarkfast.graph.subgraphs import values_by_path
from quarkfast.pipeline.prepare import prepare
from quarkfast.pipeline.resolve import resolve
from quarkfast.quantization import place
from quarkfast.ranges.estimate import estimate_range
from quarkfast.ranges.methods import params_for
from quarkfast.ranges.summary import ClippingRange, ValuesSummary

Array = NDArray[np.float32]

MOST = 1 << 18
STEPS = [2.0**-octave * (128 - step) / 128 for octave in range(6) for step in range(64)]
FLOAT = TensorSpec("int8")
POWER = TensorSpec("int8", scale="power_of_two")


def activations(model: Path, feeds: list[Mapping[str, Any]]) -> Iterator[tuple[str, Array]]:
    """Yields the values of every observed tensor over all feeds."""
    prepared = prepare(load_model(model), 13)
    tensors = place(prepared, *resolve("A8W8", {})).observed
    made = values_by_path(prepared)
    given = {value.name for value in prepared.graph.outputs}
    inner = [name for name in tensors if made[name][0].producer() is not None]
    prepared.graph.outputs.extend(made[name][0] for name in inner if name not in given)
    session = ort.inference_session(serialize(prepared), ort.session_options(threads=1))
    names = [each.name for each in session.get_outputs()]
    runs = [dict(zip(names, ort.run(session, feed), strict=True)) for feed in feeds]
    rng = np.random.default_rng(0)
    for name in inner:
        values = np.concatenate([run[name].ravel() for run in runs])
        yield name, values if values.size <= MOST else rng.choice(values, MOST, replace=False)


def squared_error(values: Array, ends: ClippingRange, spec: TensorSpec) -> float:
    """Returns the mean squared error that the codes of a range leave in the values."""
    params = params_for(*ends, spec)
    fake = kernels.fake_quantize_linear(values, params.scale, params.zero_point, qmin=params.qmin, qmax=params.qmax)
    return float(np.square(np.subtract(values, fake, dtype=np.float64)).mean())


def percentile_of_values(values: Array) -> ClippingRange:
    """Returns the 99.99th percentile of the magnitudes."""
    reach = float(np.quantile(np.abs(values), 0.9999))
    return -reach, reach


def least_error_of_values(values: Array) -> ClippingRange:
    """Tries every threshold of the histogram's own search over six octaves, on the values."""
    top = float(np.abs(values).max())
    reach = top * min(STEPS, key=lambda step: squared_error(values, (-top * step, top * step), FLOAT))
    return -reach, reach


def power_of_values(values: Array) -> ClippingRange:
    """Searches power-of-two scales over the values."""
    base = qparams.from_range(values.min(), values.max(), "int8", symmetric=True)
    low, high = qparams.search_power_of_two(values, base).limits()
    return float(low), float(high)


METHODS: tuple[tuple[str, TensorSpec, Callable[[Array], ClippingRange]], ...] = (
    ("percentile 99.99", TensorSpec("int8", method="percentile", percentile=99.99), percentile_of_values),
    ("minmse, float scale", TensorSpec("int8", method="minmse"), least_error_of_values),
    ("minmse, power of two", TensorSpec("int8", scale="power_of_two", method="minmse"), power_of_values),
)


def table(name: str, model: Path, feeds: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the rows of one model."""
    excess: dict[str, list[float]] = {method: [] for method, _, _ in METHODS}
    for _, values in activations(model, feeds):
        if not values.any():
            continue
        seen = ValuesSummary(kernels.histogram(values))
        for method, spec, of_values in METHODS:
            ours, theirs = (
                squared_error(values, ends, spec) for ends in (estimate_range(seen, spec, ""), of_values(values))
            )
            excess[method].append(ours / theirs - 1 if theirs else 0.0)
    for method, found in excess.items():
        mean, worst, equal = np.mean(found), np.max(found), sum(each == 0 for each in found)
        yield f"| {name} | {method} | {len(found)} | {equal} | {100 * mean:+.3f} % | {100 * worst:+.3f} % |"


def main() -> None:
    """Prints the table."""
    shared, minilm = map(Path, sys.argv[1:3])
    print("| model | method | tensors | same error | mean excess | largest excess |")
    print("| :-- | :-- | --: | --: | --: | --: |")
    x, _ = images(shared / "data" / "cifar10_calib.npz", 32)
    model = shared / "models" / "resnet20_cifar10.onnx"
    print("\n".join(table("resnet20, 32 images", model, [{"input": x}])), flush=True)
    rng = np.random.default_rng(0)
    ids = rng.integers(1000, 20000, (8, 32))
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    print("\n".join(table("MiniLM, 8 sentences", minilm, [feed])), flush=True)


if __name__ == "__main__":
    main()
