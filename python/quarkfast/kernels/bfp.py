"""Block floating point: BFP16, and MX4, MX6, MX9 with shared micro-exponents."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast import _core
from quarkfast.kernels import block_arguments as blocks
from quarkfast.kernels.arguments import as_flag, as_integer

__all__ = [
    "dequantize_bfp",
    "dequantize_bfp_prime",
    "fake_quantize_bfp",
    "fake_quantize_bfp_prime",
    "quantize_bfp",
    "quantize_bfp_prime",
]


def _bfp(where: str, block_size: int, bit_width: int, rounding: str, raise_exponent: bool = False) -> _core.Bfp:
    size, width = as_integer(block_size, where, "block_size"), as_integer(bit_width, where, "bit_width", 32)
    flag = as_flag(raise_exponent, where, "raise_exponent")
    return _core.Bfp(size, width, blocks.rounding_mode(where, rounding), flag)


def _prime(
    where: str, block_size: int, sub_block_size: int, shift_bits: int, bit_width: int, rounding: str
) -> _core.BfpPrime:
    mode = blocks.rounding_mode(where, rounding)
    block, sub_block = (
        as_integer(size, where, name) for name, size in (("block_size", block_size), ("sub_block_size", sub_block_size))
    )
    shift = as_integer(shift_bits, where, "shift_bits", 32)
    return _core.BfpPrime(block, sub_block, shift, as_integer(bit_width, where, "bit_width", 32), mode)


def fake_quantize_bfp(
    x: ArrayLike,
    *,
    axis: int = -1,
    block_size: int = 8,
    bit_width: int = 16,
    rounding: str = "half_even",
    raise_exponent: bool = False,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Round to block floating point: elements of a block share the exponent of the largest.

    Args:
        x: float32, float16 or bfloat16 array of any shape of rank 1 or more.
        axis: Axis along which consecutive elements form blocks; negative counts from the end.
        block_size: Elements in a block, > 0; a short last block is as if filled with zeros.
        bit_width: Sign, exponent and mantissa bits of one element, 10 to 31; 16 is BFP16 with 7-bit mantissas.
        rounding: ``"half_away"``, ``"half_up"`` or ``"half_even"``: Quark's rounding modes 0, 1 and 2.
        raise_exponent: A block whose largest value rounds up to a power of two gets the next exponent instead of
            saturating (Quark's ``use_compiler_version_cpu_kernel``).
        out: Array of the dtype and shape of ``x`` to write to; may be ``x``.

    Returns:
        Array of the dtype and shape of ``x``. Infinities and NaN are kept and do not influence their block.

    Raises:
        TypeError: ``x`` has another dtype.
        ValueError: axis, block size, bit width or rounding do not exist.

    Source:
        AMD Quark's operator ``BFPQuantizeDequantize``, method ``to_bfp``; docs/numerics.md, "BFP".

    Example:
        >>> import numpy as np
        >>> fake_quantize_bfp(np.float32([1.999, 1.0, 0.5, 0.3]))
        array([1.984375, 1.      , 0.5     , 0.296875], dtype=float32)
        >>> fake_quantize_bfp(np.float32([1.999, 1.0, 0.5, 0.3]), raise_exponent=True)
        array([2.    , 1.    , 0.5   , 0.3125], dtype=float32)
    """
    form = _bfp("fake_quantize_bfp", block_size, bit_width, rounding, raise_exponent)
    return blocks.fake_quantize("bfp", x, axis, form, out)


def quantize_bfp(
    x: ArrayLike,
    *,
    axis: int = -1,
    block_size: int = 8,
    bit_width: int = 16,
    rounding: str = "half_even",
    raise_exponent: bool = False,
    out: NDArray[Any] | None = None,
) -> NDArray[np.uint8]:
    """Store as block floating point: one byte of exponent and one two's complement code an element.

    Args:
        x: float32, float16 or bfloat16 array of any shape of rank 1 or more.
        axis: Axis of the blocks.
        block_size: Elements in a block, a multiple of 8 up to 256.
        bit_width: As in :func:`fake_quantize_bfp`, 10 to 16; codes have ``bit_width - 8`` bits.
        rounding: As in :func:`fake_quantize_bfp`.
        raise_exponent: As in :func:`fake_quantize_bfp`.
        out: uint8 array of the returned shape to write to.

    Returns:
        uint8 records, shape ``[other axes..., blocks, bytes]``: BFP16 takes 9 bytes for 8 elements. The layout is in
        docs/numerics.md, "BFP".

    Raises:
        TypeError: ``x`` has another dtype.
        ValueError: axis, block size, bit width or rounding do not exist.

    Source:
        As :func:`fake_quantize_bfp`; the layout is ours.

    Example:
        >>> import numpy as np
        >>> quantize_bfp(np.float32([1.0, -0.5, 0.25, 0, 0, 0, 0, 0])).tolist()
        [[127, 64, 224, 16, 0, 0, 0, 0, 0]]
    """
    form = _bfp("quantize_bfp", block_size, bit_width, rounding, raise_exponent)
    return blocks.quantize("bfp", x, axis, block_size, form, out)


def dequantize_bfp(
    records: ArrayLike,
    length: int,
    *,
    axis: int = -1,
    block_size: int = 8,
    bit_width: int = 16,
    out: NDArray[Any] | None = None,
) -> NDArray[np.float32]:
    """Read what :func:`quantize_bfp` stored.

    Args:
        records: uint8 array as :func:`quantize_bfp` returns it.
        length: Elements along ``axis``.
        axis: Where that axis stands in the result.
        block_size: As it was stored.
        bit_width: As it was stored.
        out: float32 array of the returned shape to write to.

    Returns:
        float32 array; for finite values what :func:`fake_quantize_bfp` gives, with all zeros positive.

    Raises:
        TypeError: ``records`` is not uint8.
        ValueError: shape, axis, block size or bit width do not fit.

    Source:
        As :func:`quantize_bfp`.

    Example:
        >>> import numpy as np
        >>> dequantize_bfp(quantize_bfp(np.float32([1.999, 1.0, 0.3])), 3)
        array([1.984375, 1.      , 0.296875], dtype=float32)
    """
    form = _bfp("dequantize_bfp", block_size, bit_width, "half_even")
    return blocks.dequantize("bfp", records, length, axis, block_size, form, out)


def fake_quantize_bfp_prime(
    x: ArrayLike,
    *,
    axis: int = -1,
    bit_width: int = 16,
    block_size: int = 16,
    sub_block_size: int = 2,
    shift_bits: int = 1,
    rounding: str = "half_even",
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Round to block floating point with shared micro-exponents: MX9 (bit_width 16), MX6 (13), MX4 (11).

    Args:
        x: float32, float16 or bfloat16 array of any shape of rank 1 or more.
        axis: Axis along which consecutive elements form blocks; negative counts from the end.
        bit_width: Sign, exponent and mantissa bits of one element, 10 to 31.
        block_size: Elements that share an exponent, > 0.
        sub_block_size: Elements that share a shift of it; divides ``block_size``.
        shift_bits: Bits of the shift, 0 to 7: a sub-block lowers the exponent by up to ``2**shift_bits - 1``.
        rounding: As in :func:`fake_quantize_bfp`.
        out: Array of the dtype and shape of ``x`` to write to; may be ``x``.

    Returns:
        Array of the dtype and shape of ``x``. A block with an infinity or NaN becomes NaN; subnormals become zero;
        zeros keep their sign.

    Raises:
        TypeError: ``x`` has another dtype.
        ValueError: axis, sizes, bit width or rounding do not exist.

    Source:
        Darvish Rouhani et al., "With Shared Microexponents, A Little Shifting Goes a Long Way" (ISCA 2023);
        AMD Quark's operator ``BFPQuantizeDequantize``, method ``to_bfp_prime``; docs/numerics.md, "MX4, MX6, MX9".

    Example:
        >>> import numpy as np
        >>> fake_quantize_bfp_prime(np.float32([1.9, 1.0, 0.3, 0.2]), bit_width=11)
        array([1.5 , 1.  , 0.25, 0.25], dtype=float32)
    """
    form = _prime("fake_quantize_bfp_prime", block_size, sub_block_size, shift_bits, bit_width, rounding)
    return blocks.fake_quantize("bfp_prime", x, axis, form, out)


def quantize_bfp_prime(
    x: ArrayLike,
    *,
    axis: int = -1,
    bit_width: int = 16,
    block_size: int = 16,
    sub_block_size: int = 2,
    shift_bits: int = 1,
    rounding: str = "half_even",
    out: NDArray[Any] | None = None,
) -> NDArray[np.uint8]:
    """Store as MX9, MX6 or MX4: 18, 12 or 8 bytes for 16 elements.

    Args:
        x: float32, float16 or bfloat16 array of any shape of rank 1 or more.
        axis: Axis of the blocks.
        bit_width: As in :func:`fake_quantize_bfp_prime`, 10 to 16; codes have ``bit_width - 8`` bits.
        block_size: A multiple of 8 up to 256.
        sub_block_size: A multiple of 8 of them make a block.
        shift_bits: As in :func:`fake_quantize_bfp_prime`.
        rounding: As in :func:`fake_quantize_bfp`.
        out: uint8 array of the returned shape to write to.

    Returns:
        uint8 records, shape ``[other axes..., blocks, bytes]``; layout in docs/numerics.md, "MX4, MX6, MX9".

    Raises:
        TypeError: ``x`` has another dtype.
        ValueError: axis, sizes, bit width or rounding do not exist.

    Source:
        As :func:`fake_quantize_bfp_prime`; the layout is ours.

    Example:
        >>> import numpy as np
        >>> [quantize_bfp_prime(np.zeros(16, np.float32), bit_width=w).shape for w in (16, 13, 11)]
        [(1, 18), (1, 12), (1, 8)]
    """
    form = _prime("quantize_bfp_prime", block_size, sub_block_size, shift_bits, bit_width, rounding)
    return blocks.quantize("bfp_prime", x, axis, block_size, form, out)


def dequantize_bfp_prime(
    records: ArrayLike,
    length: int,
    *,
    axis: int = -1,
    bit_width: int = 16,
    block_size: int = 16,
    sub_block_size: int = 2,
    shift_bits: int = 1,
    out: NDArray[Any] | None = None,
) -> NDArray[np.float32]:
    """Read what :func:`quantize_bfp_prime` stored.

    Args:
        records: uint8 array as :func:`quantize_bfp_prime` returns it.
        length: Elements along ``axis``.
        axis: Where that axis stands in the result.
        bit_width: As it was stored.
        block_size: As it was stored.
        sub_block_size: As it was stored.
        shift_bits: As it was stored.
        out: float32 array of the returned shape to write to.

    Returns:
        float32 array, bit for bit what :func:`fake_quantize_bfp_prime` gives.

    Raises:
        TypeError: ``records`` is not uint8.
        ValueError: shape, axis, sizes or bit width do not fit.

    Source:
        As :func:`quantize_bfp_prime`.

    Example:
        >>> import numpy as np
        >>> dequantize_bfp_prime(quantize_bfp_prime(np.float32([1.9, -1.0, 0.3]), bit_width=11), 3, bit_width=11)
        array([ 1.5 , -1.  ,  0.25], dtype=float32)
    """
    form = _prime("dequantize_bfp_prime", block_size, sub_block_size, shift_bits, bit_width, "half_even")
    return blocks.dequantize("bfp_prime", records, length, axis, block_size, form, out)
