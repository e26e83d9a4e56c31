"""Random samples, for trying a model out: only where they are asked for by name."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast.calibration.data.inputs import Feed, ModelInput
from quarkfast.errors import CalibrationError, did_you_mean

__all__ = ["RandomDataReader", "random_feeds"]

_SAMPLES = 8

# 1 GiB of float32: more is a mistake in the shape rather than a sample.
_MOST = 1 << 28


@dataclass(frozen=True)
class RandomDataReader:
    """Asks for random samples; the quantized model then says in its metadata that its ranges mean nothing.

    Attributes:
        samples: How many.
        seed: Of the random numbers. A sample depends on it, on the input's name and on the sample's index alone.
        shapes: Sizes of one sample by input name, batch dimension included, where the model leaves them open.
        ranges: ``(low, high)`` by input name: uniform from low to below high for floats, whole numbers from low to high
            for integers. Not given, it is (0, 1) for both.

    Raises:
        ValueError: If `samples` is less than 1.

    Source:
        The sizes chosen for open dimensions are those of AMD Quark's reader of this name: 1 for the first, 16 for the
        second of two, 3, 32 and 32 for the last three of four, else 1.

    Example:
        >>> import numpy as np
        >>> from quarkfast.calibration.data import ModelInput, random_feeds
        >>> wanted = [ModelInput("x", np.dtype(np.float32), ("N", 2))]
        >>> [feed["x"].shape for feed in random_feeds(RandomDataReader(samples=3), wanted)]
        [(1, 2), (1, 2), (1, 2)]
    """

    samples: int = _SAMPLES
    seed: int = 42
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"RandomDataReader: samples: expected 1 or more, got {self.samples}")


def random_feeds(reader: RandomDataReader, inputs: Sequence[ModelInput]) -> Iterator[Feed]:
    """Yields the samples that `reader` asks for.

    Raises:
        CalibrationError: If `reader` names an input that the model does not have.
    """
    known = [wanted.name for wanted in inputs]
    for name in (*reader.shapes, *reader.ranges):
        if name not in known:
            listed = ", ".join(map(repr, known))
            raise CalibrationError(
                f"RandomDataReader: expected inputs {listed}, got {name!r}{did_you_mean(name, known)}"
            )
    for index in range(reader.samples):
        yield {wanted.name: _draw(reader, wanted, index) for wanted in inputs}


def _draw(reader: RandomDataReader, wanted: ModelInput, index: int) -> NDArray[Any]:
    shape = tuple(reader.shapes.get(wanted.name, ())) or _shape(wanted)
    if math.prod(shape) > _MOST:
        raise CalibrationError(
            f"random data: expected an input of at most {_MOST} elements, got {list(shape)} for {wanted.name!r}; "
            "pass its shape to RandomDataReader"
        )
    generator = np.random.default_rng((reader.seed, zlib.crc32(wanted.name.encode()), index))
    low, high = reader.ranges.get(wanted.name, (0, 1))
    if wanted.dtype == object:
        return np.full(shape, "", object)
    if wanted.dtype == bool:
        return generator.integers(0, 2, shape).astype(bool)
    if wanted.dtype.kind in "iu":
        return generator.integers(int(low), int(high), shape, endpoint=True).astype(wanted.dtype)
    return generator.uniform(low, high, shape).astype(wanted.dtype)


def _shape(wanted: ModelInput) -> tuple[int, ...]:
    shape = wanted.shape or ()
    usual = {2: (1, 16), 4: (1, 3, 32, 32)}.get(len(shape), (1,) * len(shape))
    return tuple(dim if isinstance(dim, int) else size for dim, size in zip(shape, usual, strict=True))
