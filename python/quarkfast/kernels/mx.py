"""The OCP microscaling formats: MXFP8, MXFP6, MXFP4 and MXINT8."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast import _core
from quarkfast.formats.block import BLOCK_FORMATS
from quarkfast.kernels import block_arguments as blocks
from quarkfast.kernels.arguments import as_integer

__all__ = ["dequantize_mx", "fake_quantize_mx", "quantize_mx"]

# The names of the formats, and their elements as Quark's operator spells them, which are taken too.
_ELEMENTS = {row.name: str(row.attributes["element_dtype"]) for row in BLOCK_FORMATS.values() if row.family == "mx"}
_RULES = ("quark", "ocp")


def _mx(where: str, element: str, block_size: int, rounding: str, rule: str) -> _core.Mx:
    if not isinstance(element, str) or element not in _ELEMENTS.values():
        element = _ELEMENTS[blocks.choice(where, "element", element, _ELEMENTS)]
    blocks.choice(where, "rule", rule, _RULES)
    return _core.Mx(
        as_integer(block_size, where, "block_size"), element, blocks.rounding_mode(where, rounding), rule == "ocp"
    )


def fake_quantize_mx(
    x: ArrayLike,
    element: str,
    *,
    axis: int = -1,
    block_size: int = 32,
    rounding: str = "half_even",
    rule: str = "quark",
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Round to a microscaling format: elements of a block share a power-of-two scale.

    Args:
        x: float32, float16 or bfloat16 array of any shape of rank 1 or more.
        element: ``"mxfp8_e5m2"``, ``"mxfp8_e4m3"``, ``"mxfp6_e3m2"``, ``"mxfp6_e2m3"``, ``"mxfp4_e2m1"`` or
            ``"mxint8"``; the element alone (``"fp4_e2m1"``), as Quark's operator spells it, is taken too.
        axis: Axis along which consecutive elements form blocks; negative counts from the end.
        block_size: Elements in a block, > 0; a short last block is as if filled with zeros.
        rounding: Of int8 elements, as in :func:`fake_quantize_bfp`; floats always round half to even.
        rule: ``"quark"``: scales of any exponent, float elements that round to zero become ``+0``, infinities and NaN
            are kept and do not influence their block. ``"ocp"``: scales from 2^-127, zeros of float elements keep
            their sign and those of int8 have none, a block with an infinity or NaN becomes NaN.
        out: Array of the dtype and shape of ``x`` to write to; may be ``x``.

    Returns:
        Array of the dtype and shape of ``x``; values beyond the element's largest saturate.

    Raises:
        TypeError: ``x`` has another dtype.
        ValueError: element, axis, block size, rounding or rule do not exist.

    Source:
        OCP Microscaling Formats (MX) Specification v1.0, sections 5 and 6.3; AMD Quark's operator
        ``MXQuantizeDequantize``; docs/numerics.md, "OCP MX".

    Example:
        >>> import numpy as np
        >>> fake_quantize_mx(np.float32([6.5, -1.2, 0.1, 3.4]), "mxfp4_e2m1")
        array([ 6., -1.,  0.,  3.], dtype=float32)
    """
    form = _mx("fake_quantize_mx", element, block_size, rounding, rule)
    return blocks.fake_quantize("mx", x, axis, form, out)


def quantize_mx(
    x: ArrayLike,
    element: str,
    *,
    axis: int = -1,
    block_size: int = 32,
    rounding: str = "half_even",
    out: NDArray[Any] | None = None,
) -> NDArray[np.uint8]:
    """Store in a microscaling format, by the rule ``"ocp"`` of :func:`fake_quantize_mx`.

    Args:
        x: float32, float16 or bfloat16 array of any shape of rank 1 or more.
        element: As in :func:`fake_quantize_mx`.
        axis: Axis of the blocks.
        block_size: A multiple of 8 up to 256.
        rounding: As in :func:`fake_quantize_mx`.
        out: uint8 array of the returned shape to write to.

    Returns:
        uint8 records, shape ``[other axes..., blocks, bytes]``: byte 0 is the e8m0 scale, the others the elements,
        33, 25 or 17 bytes for 32 elements of 8, 6 or 4 bits. 6-bit codes are four in three bytes and 4-bit codes two in
        one, the first in the low bits (ONNX's order).

    Raises:
        TypeError: ``x`` has another dtype.
        ValueError: element, axis, block size or rounding do not exist.

    Source:
        As :func:`fake_quantize_mx`; the specification leaves the layout open.

    Example:
        >>> import numpy as np
        >>> quantize_mx(np.float32([6.0, -1.0, 0.5]), "mxfp4_e2m1")[0, :3].tolist()
        [127, 167, 1]
    """
    form = _mx("quantize_mx", element, block_size, rounding, "ocp")
    return blocks.quantize("mx", x, axis, block_size, form, out)


def dequantize_mx(
    records: ArrayLike,
    length: int,
    element: str,
    *,
    axis: int = -1,
    block_size: int = 32,
    out: NDArray[Any] | None = None,
) -> NDArray[np.float32]:
    """Read what :func:`quantize_mx` stored.

    Args:
        records: uint8 array as :func:`quantize_mx` returns it.
        length: Elements along ``axis``.
        element: As it was stored.
        axis: Where that axis stands in the result.
        block_size: As it was stored.
        out: float32 array of the returned shape to write to.

    Returns:
        float32 array, bit for bit what :func:`fake_quantize_mx` gives with the rule ``"ocp"``.

    Raises:
        TypeError: ``records`` is not uint8.
        ValueError: shape, element, axis or block size do not fit.

    Source:
        As :func:`quantize_mx`.

    Example:
        >>> import numpy as np
        >>> dequantize_mx(quantize_mx(np.float32([6.5, -1.2, 3.4]), "mxfp4_e2m1"), 3, "mxfp4_e2m1")
        array([ 6., -1.,  3.], dtype=float32)
    """
    form = _mx("dequantize_mx", element, block_size, "half_even", "ocp")
    return blocks.dequantize("mx", records, length, axis, block_size, form, out)
