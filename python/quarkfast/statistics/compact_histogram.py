"""Histograms that take a half of the memory or less, as a model has hundreds of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quarkfast.kernels import Histogram, Range

__all__ = ["CompactHistogram"]


class CompactHistogram(Histogram):
    """A histogram whose counts have the fewest bytes that hold the largest of them; they are widened when asked for.

    Attributes:
        kept: The counts in these bytes.

    Example:
        >>> import numpy as np
        >>> from quarkfast.kernels import histogram
        >>> wide = histogram(np.float32([1.0, 2.0, 2.0]))
        >>> found = CompactHistogram(wide.counts, wide.exponent, wide.range)
        >>> found.counts.dtype, np.array_equal(found.counts, wide.counts), found.kept.dtype
        (dtype('uint64'), True, dtype('uint8'))
    """

    kept: NDArray[np.unsignedinteger]

    def __init__(self, counts: NDArray[np.uint64], exponent: int, range: Range) -> None:
        """Takes what a histogram has."""
        kept = counts.astype(np.min_scalar_type(counts.max(initial=0)))
        self.__dict__.update(kept=kept, exponent=exponent, range=range)

    @property
    def counts(self) -> NDArray[np.uint64]:
        """The counts, as those of any histogram; widened anew each time."""
        widened: NDArray[np.uint64] = self.kept.astype(np.uint64)
        return widened
