"""How close a quantized model comes to the float model: with exact sums, and in a default session on this processor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from quarkfast import ort
from quarkfast.evaluate.common_shape import is_float_array
from quarkfast.evaluate.exact_sums import exact_session
from quarkfast.evaluate.metrics import sqnr
from quarkfast.evaluate.partial_model import Feed

__all__ = ["Accuracy", "differ", "measure"]

#: In dB: how far a default session may be from exact sums to be called the same. Kernels that round in another order
#: move outputs by less, sums that saturate by more.
SAME_ACCURACY = 1.0
#: In dB: above it the order of additions in float32 decides, which another processor or an optimization changes. One
#: rounding is 2^-25 at most, which is 150 dB; the demo's float model in a default session is at 129 dB.
FLOAT_ROUNDINGS = 100.0


def differ(exact: float, default: float) -> bool:
    """Returns whether two ratios in dB against the float model, with exact sums and in a default session, differ.

    Example:
        >>> differ(31.9, 14.9), differ(31.9, 31.8), differ(float("inf"), 129.6)
        (True, False, False)
    """
    return abs(min(exact, FLOAT_ROUNDINGS) - min(default, FLOAT_ROUNDINGS)) > SAME_ACCURACY


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Ratios of signal to noise against the float model, in dB, of the output that has the least with exact sums.

    Attributes:
        output: Name of that output.
        exact: With exact sums, without ONNX Runtime's optimizations: the same on every processor.
        default: In a default session, as this processor computes.
    """

    output: str
    exact: float
    default: float

    @property
    def default_is_others(self) -> bool:
        """Whether a default session here is not what exact sums are."""
        return differ(self.exact, self.default)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain data, for JSON, which has no infinity: None stands for it."""
        figures = asdict(self)
        return {name: None if isinstance(f, float) and not np.isfinite(f) else f for name, f in figures.items()}

    def __str__(self) -> str:
        text = f"{self.exact:.1f} dB with exact sums"
        return f"{text}, {self.default:.1f} dB in a default session here" if self.default_is_others else text


def measure(
    model: onnx.ModelProto,
    feeds: Sequence[Feed],
    reference: str | os.PathLike[str] | bytes,
    folder: Path | None = None,
) -> Accuracy | None:
    """Runs a model with exact sums and in a default session, beside the float model.

    Args:
        model: A quantized model; above 2 GiB its constants are in files.
        feeds: Arrays by the names of its inputs, at least one.
        reference: The float model, with the same inputs and outputs.
        folder: Where the quantized model's files are.

    Returns:
        The ratios, or None where no output holds floats.

    Raises:
        ModelError: ONNX Runtime does not take a model or a feed.
    """
    wanted = _run(ort.inference_session(reference), feeds)
    exact = _run(exact_session(model, folder), feeds)
    default = _run(ort.inference_session(model.SerializeToString(), folder=folder), feeds)
    found = [
        Accuracy(name, sqnr(wanted[name], exact[name]), sqnr(wanted[name], default[name]))
        for name in wanted
        if name in exact and wanted[name].shape == exact[name].shape
    ]
    return min(found, key=lambda each: each.exact, default=None)


def _run(session: Any, feeds: Sequence[Feed]) -> dict[str, NDArray[np.float64]]:
    """Returns every output of floats, over all feeds, in one row."""
    names = [output.name for output in session.get_outputs()]
    columns = dict(zip(names, zip(*(ort.run(session, feed) for feed in feeds), strict=True), strict=True))
    return {
        name: np.concatenate([part.astype(np.float64).ravel() for part in parts])
        for name, parts in columns.items()
        if is_float_array(parts[0])
    }
