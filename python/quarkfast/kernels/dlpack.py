"""Arrays of other libraries by DLPack, the small floats included, without importing any of them.

NumPy's own exchange knows no bfloat16 and no float of 8 bits or fewer, so the descriptor is read and written here.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from quarkfast.errors import shown

__all__ = ["Exported", "from_dlpack", "to_dlpack"]

_CPU = 1
_NAME = b"dltensor"
# DLDataTypeCode and bits of the types: dlpack.h 1.1.
_CODES = {
    **{(0, bits): np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{(1, bits): np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{(2, bits): np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
    (4, 16): np.dtype(ml_dtypes.bfloat16),
    (6, 8): np.dtype(np.bool_),
    (10, 8): np.dtype(ml_dtypes.float8_e4m3fn),
    (11, 8): np.dtype(ml_dtypes.float8_e4m3fnuz),
    (12, 8): np.dtype(ml_dtypes.float8_e5m2),
    (13, 8): np.dtype(ml_dtypes.float8_e5m2fnuz),
    (14, 8): np.dtype(ml_dtypes.float8_e8m0fnu),
}
_BY_DTYPE = {dtype: code for (code, _), dtype in _CODES.items()}


class _Tensor(ctypes.Structure):
    """DLTensor: the beginning of the DLManagedTensor that a capsule holds."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _descriptor(capsule: Any) -> _Tensor:
    return _Tensor.from_address(_pointer(capsule, _NAME))


class _Memory:
    """Memory of a tensor for NumPy; the capsule, which nobody consumes, keeps it alive."""

    def __init__(self, capsule: Any, interface: dict[str, Any]) -> None:
        self.capsule = capsule
        self.__array_interface__ = interface


def from_dlpack(x: Any, where: str = "from_dlpack", argument: str = "x") -> NDArray[Any]:
    """View a tensor of another library as a NumPy array of the same memory.

    All kernels do this by themselves for their inputs. For ``out``, view the tensor first.

    Args:
        x: Anything with ``__dlpack__`` whose memory is the CPU's: integers, bool, float16 to float64, bfloat16 or the
            floats of 8 bits.
        where: Begins the message of an error.
        argument: Names the argument in it.

    Returns:
        Array of the same shape, strides and memory; small floats in the dtypes of ml_dtypes.

    Raises:
        TypeError: ``x`` is no such tensor, or of another type.
        ValueError: its library does not export it, or its memory is another device's.

    Source:
        The DLPack specification 1.1 and the array API standard.

    Example:
        >>> import ml_dtypes, numpy as np
        >>> from quarkfast import to_dlpack
        >>> tensor = to_dlpack(np.arange(3).astype(ml_dtypes.bfloat16))
        >>> from_dlpack(tensor)
        array([0, 1, 2], dtype=bfloat16)
    """
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise TypeError(f"{where}: {argument}: expected a tensor with __dlpack__, got {shown(x)}")
    device = int(x.__dlpack_device__()[0])
    if device != _CPU:
        raise ValueError(
            f"{where}: {argument}: expected memory of the CPU, got device type {device}; copy it there first"
        )
    try:
        capsule = x.__dlpack__()
    except (BufferError, RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{where}: {argument}: expected a tensor that DLPack exports, got: {reason}") from error
    tensor = _descriptor(capsule)
    dtype = _CODES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if dtype is None:
        kind = f"code {tensor.code} of {tensor.bits} bits and {tensor.lanes} lanes"
        raise TypeError(f"{where}: {argument}: expected a DLPack type that NumPy or ml_dtypes have, got {kind}")
    shape = tuple(tensor.shape[: tensor.ndim])
    if not np.prod(shape):
        return np.empty(shape, dtype)
    strides = tuple(n * dtype.itemsize for n in tensor.strides[: tensor.ndim]) if tensor.strides else None
    storage = np.dtype(f"u{dtype.itemsize}")  # NumPy's interface knows no small floats
    interface = {
        "version": 3,
        "shape": shape,
        "typestr": storage.str,
        "data": ((tensor.data or 0) + tensor.byte_offset, False),
        "strides": strides,
    }
    return np.asarray(_Memory(capsule, interface)).view(dtype)


class Exported:
    """An array as other libraries take it: ``torch.from_dlpack(exported)`` shares its memory."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        self._code = _BY_DTYPE[array.dtype]

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0

    def __dlpack__(self, **_: Any) -> Any:
        capsule = self._array.view(f"u{self._array.dtype.itemsize}").__dlpack__()
        _descriptor(capsule).code = self._code  # NumPy described unsigned integers of the same size
        return capsule


def to_dlpack(x: NDArray[Any]) -> Exported:
    """Offer an array to other libraries: what ``torch.from_dlpack`` and its like take, small floats included.

    NumPy's own ``__dlpack__`` refuses the dtypes of ml_dtypes.

    Args:
        x: Array of integers, bool, float16 to float64, bfloat16 or a float of 8 bits, writeable.

    Raises:
        TypeError: ``x`` is no array, or of another dtype.
        ValueError: ``x`` is read-only, which the exchange cannot say.

    Source:
        As :func:`from_dlpack`.

    Example:
        >>> import ml_dtypes, numpy as np
        >>> to_dlpack(np.zeros(3, ml_dtypes.bfloat16)).__dlpack_device__()
        (1, 0)
    """
    if not isinstance(x, np.ndarray):
        raise TypeError(f"to_dlpack: x: expected an array, got {shown(x)}")
    if x.dtype not in _BY_DTYPE:
        raise TypeError(f"to_dlpack: x: expected a type that DLPack has, got {x.dtype}")
    if not x.flags.writeable:
        raise ValueError("to_dlpack: x: expected a writeable array, got a read-only one; x.copy() is writeable")
    return Exported(x)
