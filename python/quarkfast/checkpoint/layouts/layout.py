"""What a layout is: the names, types and order in which a runtime wants the parts of a quantized weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quarkfast.checkpoint.safetensors_files import TensorShape
from quarkfast.checkpoint.schemes import Element, WeightScheme
from quarkfast.checkpoint.weights import QuantizedWeight

__all__ = ["Layout", "signed_codes", "unsigned_codes"]

Shape = tuple[int, ...]


class Layout(Protocol):
    """The form of a checkpoint that a runtime reads.

    Attributes:
        name: What the command calls it.
        as_quark: Whether codes are found as AMD Quark finds them.
    """

    name: str
    as_quark: bool

    def accepts(self, scheme: WeightScheme) -> bool:
        """Whether this layout can hold weights of a scheme."""

    def scale_kind(self, kind: str) -> str:
        """The type of float scales, as safetensors calls it, of a weight that was of type `kind`."""

    def shapes(self, module: str, shape: Shape, scheme: WeightScheme, kind: str) -> dict[str, TensorShape]:
        """Name -> type and shape of the tensors that a weight ``[outputs, inputs]`` becomes."""

    def pack(self, module: str, weight: QuantizedWeight) -> dict[str, NDArray[Any]]:
        """Name -> array: what :meth:`shapes` announced."""

    def unpack(
        self, module: str, tensors: Mapping[str, NDArray[Any]], shape: Shape, scheme: WeightScheme
    ) -> QuantizedWeight:
        """Reads what :meth:`pack` gave."""

    def config(self, scheme: WeightScheme, left: Sequence[str]) -> dict[str, Any]:
        """The ``quantization_config`` of config.json; `left` are the layers that stay float."""


def unsigned_codes(codes: NDArray[Any], element: Element) -> NDArray[np.uint8]:
    """Codes of an integer element from 0 up: signed ones are moved by half their range.

    Example:
        >>> import numpy as np
        >>> from quarkfast.checkpoint.schemes import ELEMENTS
        >>> unsigned_codes(np.int8([-8, 0, 7]), ELEMENTS["int4"])
        array([ 0,  8, 15], dtype=uint8)
    """
    return (codes.view(np.uint8) - np.uint8(int(element.low) & 0xFF)).astype(np.uint8)


def signed_codes(codes: NDArray[np.uint8], element: Element) -> NDArray[Any]:
    """The inverse of :func:`unsigned_codes`."""
    return (codes + np.uint8(int(element.low) & 0xFF)).astype(np.uint8).view(element.dtype)
