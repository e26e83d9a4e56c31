"""Threads of BLAS: on how many NumPy multiplies the matrices of a layer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["blas_threads_for"]

# Fewest numbers in a row of a matrix whose products are worth more than one thread. The threads of OpenBLAS keep their
# processors busy for milliseconds behind each product: the layers of a residual network have 576 inputs at most, and
# coordinate descent takes 21 seconds of processor time with two threads and 11 with one, in as long a time. In a
# sentence encoder the widest have 1,536, and it takes 30 seconds where these are multiplied on two threads, and 34
# where on one.
_WORTH_THREADS = 1000


@contextmanager
def blas_threads_for(inputs: int) -> Iterator[None]:
    """Holds NumPy to one thread where a layer has few inputs, and leaves it as many as it has where these are many.

    The threads are those of the process: calls that overlap hold all of it, and the last to end gives them back.

    Args:
        inputs: Numbers in a row of the layer's input, `k` of its ``[k, k]`` Gram matrix.

    Example:
        >>> import numpy as np
        >>> with blas_threads_for(2):
        ...     float(np.float64([1, 2]) @ np.float64([3, 4]))
        11.0
    """
    if inputs >= _WORTH_THREADS:
        yield
        return
    _ONE_THREAD.take()
    try:
        yield
    finally:
        _ONE_THREAD.give_back()


class _OneThread:
    """Holds BLAS to one thread as long as anyone has taken it."""

    def __init__(self) -> None:
        self._lock, self._takers = Lock(), 0
        self._libraries: Any = None
        self._limit: Any = None

    def take(self) -> None:
        with self._lock:
            if self._libraries is None:
                self._libraries = ThreadpoolController().select(user_api="blas")
            if not self._takers:
                self._limit = self._libraries.limit(limits=1)
            self._takers += 1

    def give_back(self) -> None:
        with self._lock:
            self._takers -= 1
            if not self._takers:
                self._limit.restore_original_limits()


_ONE_THREAD = _OneThread()
