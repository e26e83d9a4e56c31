"""The layout of the weights of onnxruntime's operator MatMulNBits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quarkfast.errors import shown
from quarkfast.formats.scalar import ScalarFormat
from quarkfast.kernels.arguments import as_array, as_integer
from quarkfast.kernels.packing import code_type, pack_codes, unpack_codes

__all__ = ["MatMulNBits", "pack_matmul_nbits", "unpack_matmul_nbits"]

_PACK, _UNPACK = "pack_matmul_nbits", "unpack_matmul_nbits"

# Of rows that share a scale. The operator knows no bound, but a last block is filled up, and this bounds its memory.
_LARGEST_BLOCK = 1 << 16


class MatMulNBits(NamedTuple):
    """Inputs of onnxruntime's operator ``com.microsoft::MatMulNBits`` for a weight of K rows and N columns.

    Attributes:
        weight: uint8 ``[N, ceil(K / block_size), block_size * bits / 8]``.
        scale: float ``[N * ceil(K / block_size)]``.
        zero_point: uint8 ``[N * ceil(ceil(K / block_size) * bits / 8)]``, each column's packed apart.
    """

    weight: NDArray[np.uint8]
    scale: NDArray[Any]
    zero_point: NDArray[np.uint8]


def pack_matmul_nbits(
    codes: ArrayLike, scale: ArrayLike, zero_point: ArrayLike | None = None, *, block_size: int, bits: int = 4
) -> MatMulNBits:
    """Lay out blockwise quantized weights as onnxruntime's MatMulNBits reads them.

    Args:
        codes: ``[K, N]`` codes that :func:`~quarkfast.quantize_linear` gave for ``axis=0`` and ``block_size``. Signed
            codes are shifted by ``2**(bits - 1)``: the operator knows unsigned ones only.
        scale: ``[ceil(K / block_size), N]``, float32 or float16.
        zero_point: Codes of the shape of ``scale`` and the dtype of ``codes``; zeros when absent.
        block_size: A power of two from 16 to 65536: rows that share a scale.
        bits: 2, 4 or 8.

    Returns:
        The operator's inputs. Rows beyond K are filled with the zero point, hence with zeros.

    Raises:
        TypeError: codes are not of an integer type of at most 8 bits, or scales of another type.
        ValueError: shapes do not fit, a code does not fit ``bits``, or ``block_size`` or ``bits`` is not among the
            above.

    Source:
        onnxruntime, docs/ContribOperators.md, com.microsoft.MatMulNBits.

    Example:
        >>> import numpy as np, quarkfast
        >>> w = np.linspace(-1, 1, 64, dtype=np.float32).reshape(32, 2)
        >>> scale = np.full((1, 2), 1 / 7, np.float32)
        >>> q = quarkfast.quantize_linear(w, scale, dtype="int4", axis=0, block_size=32)
        >>> pack_matmul_nbits(q, scale, block_size=32).weight.shape
        (2, 1, 16)
    """
    array, scales = (as_array(*given) for given in ((codes, _PACK, "codes"), (scale, _PACK, "scale")))
    row = code_type(array.dtype, _PACK)
    block_size, bits = _checked_nbits(_PACK, block_size, bits)
    if scales.dtype not in (np.float32, np.float16):
        raise TypeError(f"{_PACK}: scale: expected float32 or float16, got {scales.dtype}")
    if array.ndim != 2:
        raise ValueError(f"{_PACK}: codes: expected shape [K, N], got {array.shape}")
    k, n = array.shape
    blocks = -(-k // block_size)
    if scales.shape != (blocks, n):
        raise ValueError(f"{_PACK}: scale: expected shape {(blocks, n)}, got {scales.shape}")
    zeros = np.zeros(scales.shape, array.dtype) if zero_point is None else as_array(zero_point, _PACK, "zero_point")
    if (zeros.dtype, zeros.shape) != (array.dtype, scales.shape):
        raise ValueError(
            f"{_PACK}: zero_point: expected {array.dtype} of shape {scales.shape}, got {zeros.dtype} of {zeros.shape}"
        )
    unsigned = [_unsigned(each, row, bits).T for each in (array, zeros)]
    padded = np.repeat(unsigned[1], block_size, axis=1)
    padded[:, :k] = unsigned[0]
    each_column = np.zeros((n, -(-blocks * bits // 8) * 8 // bits), np.uint8)
    each_column[:, :blocks] = unsigned[1]
    weight, zero = (pack_codes(a, bits=bits) if bits < 8 else a.ravel() for a in (padded, each_column))
    return MatMulNBits(
        weight.reshape(n, blocks, block_size * bits // 8), np.ascontiguousarray(scales.T).reshape(-1), zero
    )


def unpack_matmul_nbits(
    packed: MatMulNBits, k: int, *, block_size: int, bits: int = 4
) -> tuple[NDArray[np.uint8], NDArray[Any], NDArray[np.uint8]]:
    """Return the unsigned codes ``[K, N]``, scales and zero points ``[blocks, N]`` of a MatMulNBits weight.

    Args:
        packed: The operator's inputs.
        k: Rows of the weight.
        block_size: Rows that share a scale.
        bits: 2, 4 or 8.

    Raises:
        TypeError: ``packed`` is no :class:`MatMulNBits` or its codes are not uint8.
        ValueError: ``block_size`` or ``bits`` is not among those of :func:`pack_matmul_nbits`, or sizes do not fit.

    Source:
        As :func:`pack_matmul_nbits`.

    Example:
        >>> import numpy as np
        >>> packed = pack_matmul_nbits(np.full((20, 3), 5, np.uint8), np.ones((2, 3), "f4"), block_size=16)
        >>> unpack_matmul_nbits(packed, 20, block_size=16)[0].shape
        (20, 3)
    """
    block_size, bits = _checked_nbits(_UNPACK, block_size, bits)
    k = as_integer(k, _UNPACK, "k")
    if k < 0:
        raise ValueError(f"{_UNPACK}: k: expected 0 or more, got {k}")
    if not isinstance(packed, MatMulNBits):
        raise TypeError(f"{_UNPACK}: packed: expected a MatMulNBits, got {shown(packed)}")
    packed = MatMulNBits(*(as_array(each, _UNPACK, name) for name, each in packed._asdict().items()))
    blocks, n = -(-k // block_size), packed.weight.shape[0] if packed.weight.ndim else 0
    shapes = (n, blocks * block_size), (n, -(-blocks * bits // 8) * 8 // bits)
    _check_packed(packed, (n, blocks, block_size * bits // 8), n * shapes[1][1] * bits // 8)
    codes, zeros = (
        unpack_codes(part, np.uint8, shape, bits=bits) if bits < 8 else part.reshape(shape)
        for part, shape in zip((packed.weight, packed.zero_point), shapes, strict=True)
    )
    return codes[:, :k].T.copy(), packed.scale.reshape(n, blocks).T.copy(), zeros[:, :blocks].T.copy()


def _checked_nbits(where: str, block_size: int, bits: int) -> tuple[int, int]:
    block_size, bits = as_integer(block_size, where, "block_size"), as_integer(bits, where, "bits")
    if bits not in (2, 4, 8):
        raise ValueError(f"{where}: bits: expected 2, 4 or 8, got {bits}")
    if not 16 <= block_size <= _LARGEST_BLOCK or block_size & (block_size - 1):
        raise ValueError(f"{where}: block_size: expected a power of two from 16 to {_LARGEST_BLOCK}, got {block_size}")
    return block_size, bits


def _check_packed(packed: MatMulNBits, weight: tuple[int, ...], zeros: int) -> None:
    """Hold the inputs of the operator against the shape of the weight and the bytes of the zero points."""
    for name in ("weight", "zero_point"):
        if getattr(packed, name).dtype != np.uint8:
            raise TypeError(f"{_UNPACK}: {name}: expected dtype uint8, got {getattr(packed, name).dtype}")
    if packed.weight.shape != weight:
        raise ValueError(f"{_UNPACK}: weight: expected shape {weight}, got {packed.weight.shape}")
    if packed.scale.size != weight[0] * weight[1] or packed.zero_point.size != zeros:
        raise ValueError(
            f"{_UNPACK}: packed: expected {weight[0] * weight[1]} scales and {zeros} bytes of zero points, "
            f"got {packed.scale.size} and {packed.zero_point.size}"
        )


def _unsigned(codes: NDArray[Any], row: ScalarFormat, bits: int) -> NDArray[np.uint8]:
    """Shift signed codes by half the range of ``bits``; codes that do not fit are refused."""
    shifted = codes.astype(np.int16) + ((1 << (bits - 1)) if row.signed else 0)
    if shifted.size and not (shifted.min() >= 0 and shifted.max() < 1 << bits):
        raise ValueError(f"{_PACK}: codes: expected {bits}-bit codes, got [{codes.min()}, {codes.max()}] of {row.name}")
    return shifted.astype(np.uint8)
