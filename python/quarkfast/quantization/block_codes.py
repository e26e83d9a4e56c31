"""Weights in block formats: rounded, and packed to the bits that a format promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quarkfast import kernels
from quarkfast.formats.block import BlockFormat, Rounding
from quarkfast.graph.chunked_io import PIECE_BYTES

__all__ = ["PackingTally", "pack", "rounded", "unclipped"]


def rounded(values: NDArray[np.float32], row: BlockFormat, axis: int, rounding: Rounding) -> NDArray[np.float32]:
    """Returns `values` rounded to what the format can hold, in blocks along `axis`, as Quark's operator does.

    A single value is left as it is.

    Example:
        >>> import numpy as np
        >>> from quarkfast.formats.block import BLOCK_FORMATS
        >>> rounded(np.float32([[1.9, 1.0, 0.3, 0.2]]), BLOCK_FORMATS["mx4"], 1, "half_even").tolist()
        [[1.5, 1.0, 0.25, 0.25]]
    """
    if values.size <= 1:
        return values
    result: NDArray[np.float32] = _kernel("fake_quantize", row)(
        values, **_choices(row), axis=axis, block_size=row.block_size, rounding=rounding
    )
    return result


def pack(values: NDArray[np.float32], row: BlockFormat, axis: int, rounding: Rounding) -> NDArray[np.uint8] | None:
    """Returns the records of :func:`rounded`, or None where they do not pay or do not hold it exactly.

    1. They do not pay where an axis is much shorter than a block: the three colours of an image, or the one channel of
       a depthwise convolution, take a whole record each.
    2. They do not hold values whose exponent is out of reach of a record's (below 2^-127).
    """
    if values.size <= 1:
        return None
    records: NDArray[np.uint8] = _kernel("quantize", row)(
        values, **_choices(row), axis=axis, block_size=row.block_size, rounding=rounding
    )
    if records.nbytes >= values.nbytes:
        return None
    length = values.shape[axis]
    back = _kernel("dequantize", row)(records, length, **_choices(row), axis=axis, block_size=row.block_size)
    return records if np.array_equal(back, rounded(values, row, axis, rounding)) else None


def unclipped(values: NDArray[np.float32], row: BlockFormat, axis: int, rounding: Rounding) -> NDArray[np.float32]:
    """Returns constants whose rounding is nearer to `values` than that of `values` itself.

    The largest magnitude of a block decides the exponent, and some formats cut it off: from 2^k to 2^(k+1), fp8_e4m3
    holds nothing above 1.75 * 2^k. Where it makes the squared error of its block less, that one value becomes 2^(k+1).
    Without such a block, `values` itself is returned. A depthwise classifier in MXFP8E4M3: 9.3 dB become 14.4.

    Example:
        >>> import numpy as np
        >>> from quarkfast.formats.block import BLOCK_FORMATS
        >>> row, weights = BLOCK_FORMATS["mxfp8_e4m3"], np.float32([[1.95, 1.0], [1.8, 1.0]])
        >>> unclipped(weights, row, 1, "half_even").tolist() == np.float32([[2.0, 1.0], [1.8, 1.0]]).tolist()
        True
    """
    if values.size <= 1:
        return values
    changed = values
    for part in _parts(values, axis):
        found = _unclipped(values[part], row, axis, rounding)
        if found is not None:
            changed = values.copy() if changed is values else changed
            changed[part] = found
    return changed


def _parts(values: NDArray[np.float32], axis: int) -> Iterator[tuple[slice, ...]]:
    """Yields parts of an array that cut no block along `axis`: searching one takes ten times its memory."""
    along = 1 if axis % values.ndim == 0 else 0
    if values.nbytes <= PIECE_BYTES or values.ndim <= along:
        yield ()
        return
    length = values.shape[along]
    step = max(1, length * PIECE_BYTES // values.nbytes)
    yield from ((slice(None),) * along + (slice(start, start + step),) for start in range(0, length, step))


def _unclipped(
    values: NDArray[np.float32], row: BlockFormat, axis: int, rounding: Rounding
) -> NDArray[np.float32] | None:
    """Returns what :func:`unclipped` does, or None where that is `values`."""
    lines = np.moveaxis(values, axis, -1)
    length = lines.shape[-1]
    blocks = np.pad(lines.reshape(-1, length), ((0, 0), (0, -length % row.block_size))).reshape(-1, row.block_size)
    raised = blocks.copy()
    places = np.arange(len(blocks)), np.abs(blocks).argmax(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):  # infinities, and what becomes one, stay as they are
        raised[places] = np.copysign(np.ldexp(np.float32(1), np.frexp(blocks[places])[1]), blocks[places])
        better = _squared_error(raised, blocks, row, rounding) < _squared_error(blocks, blocks, row, rounding)
    if not better.any():
        return None
    chosen = np.where(better[:, None], raised, blocks).reshape(*lines.shape[:-1], -1)[..., :length]
    return np.moveaxis(chosen, -1, axis)


def _squared_error(
    stored: NDArray[np.float32], wanted: NDArray[np.float32], row: BlockFormat, rounding: Rounding
) -> NDArray[np.float64]:
    error = rounded(stored, row, 1, rounding).astype(np.float64) - wanted
    squared: NDArray[np.float64] = (error * error).sum(axis=1)
    return squared


class PackingTally:
    """Counts what packing a model's weights came to."""

    def __init__(self) -> None:
        self._values: dict[BlockFormat, int] = {}
        self._bytes: dict[BlockFormat, int] = {}
        self._left: list[int] = []

    def add(self, row: BlockFormat, values: NDArray[np.float32], records: NDArray[np.uint8] | None) -> None:
        """Counts one constant; `records` is None if it stays in float32."""
        if records is None:
            self._left.append(values.nbytes)
            return
        self._values[row] = self._values.get(row, 0) + values.size
        self._bytes[row] = self._bytes.get(row, 0) + records.nbytes

    def notes(self) -> tuple[str, ...]:
        """Returns a sentence for each format, and one for what was not packed."""
        notes = [
            f"{count:,} weights packed as {row.name} in {self._bytes[row]:,} bytes: "
            f"{8 * self._bytes[row] / count:.2f} bits each, {row.bits:g} in full blocks"
            for row, count in self._values.items()
        ]
        if self._left:
            notes.append(
                f"{len(self._left)} constants ({sum(self._left):,} bytes) stay in float32: their axis is too short for "
                "packed blocks to be smaller, or they hold values too small for them"
            )
        return tuple(notes)


def _kernel(verb: str, row: BlockFormat) -> Any:
    return getattr(kernels, f"{verb}_{row.family}")


def _choices(row: BlockFormat) -> dict[str, int | str]:
    if row.family == "mx":
        return {"element": row.attributes["element_dtype"]}
    if row.family == "bfp":
        return {"bit_width": row.attributes["bit_width"]}
    names = {"bit_width": "bit_width", "sub_block_size": "sub_block_size", "shift_bits": "sub_block_shift_bits"}
    return {argument: row.attributes[name] for argument, name in names.items()}
