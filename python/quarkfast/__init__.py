"""quarkfast: post-training quantization of ONNX models with native kernels, for NPUs and CPUs.

Public names are imported when they are first used, so that ``import quarkfast`` loads no other package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# Not lazily: when the module quarkfast.quantize is first loaded, Python puts the module itself under the package's name
# `quantize`. Loaded here, the function takes its place for good. It costs 25 ms and loads no other package.
from quarkfast.quantize import QuantizedModel, quantize

if TYPE_CHECKING:
    from quarkfast.config import OPTIONS, PRESETS, Scheme, TensorSpec
    from quarkfast.errors import (
        CalibrationError,
        ConfigError,
        DependencyError,
        ModelError,
        OutputError,
        QuarkfastError,
        UnsupportedError,
    )
    from quarkfast.isa import active_isa, available_isas, num_threads, set_num_threads, use_isa
    from quarkfast.kernels import (
        MatMulNBits,
        Range,
        cast,
        dequantize_linear,
        fake_quantize_linear,
        pack_codes,
        pack_matmul_nbits,
        quantize_linear,
        reduce_range,
        round_trip,
        unpack_codes,
        unpack_matmul_nbits,
    )
    from quarkfast.ort import get_library_path, register
    from quarkfast.summary import Summary

__all__ = [
    "OPTIONS",
    "PRESETS",
    "CalibrationError",
    "ConfigError",
    "DependencyError",
    "MatMulNBits",
    "ModelError",
    "OutputError",
    "QuantizedModel",
    "QuarkfastError",
    "Range",
    "Scheme",
    "Summary",
    "TensorSpec",
    "UnsupportedError",
    "__version__",
    "active_isa",
    "available_isas",
    "cast",
    "dequantize_linear",
    "fake_quantize_linear",
    "get_library_path",
    "num_threads",
    "pack_codes",
    "pack_matmul_nbits",
    "quantize",
    "quantize_linear",
    "reduce_range",
    "register",
    "round_trip",
    "set_num_threads",
    "unpack_codes",
    "unpack_matmul_nbits",
    "use_isa",
]

# Where each public name lives.
_HOMES = {
    "config": ["OPTIONS", "PRESETS", "Scheme", "TensorSpec"],
    "summary": ["Summary"],
    "errors": [
        "CalibrationError",
        "ConfigError",
        "DependencyError",
        "ModelError",
        "OutputError",
        "QuarkfastError",
        "UnsupportedError",
    ],
    "isa": ["active_isa", "available_isas", "num_threads", "set_num_threads", "use_isa"],
    "kernels": [
        "MatMulNBits",
        "Range",
        "cast",
        "dequantize_linear",
        "fake_quantize_linear",
        "pack_codes",
        "pack_matmul_nbits",
        "quantize_linear",
        "reduce_range",
        "round_trip",
        "unpack_codes",
        "unpack_matmul_nbits",
    ],
    "ort": ["get_library_path", "register"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("quarkfast")
        except PackageNotFoundError:
            return "0+source"  # a source tree on sys.path, not installed
    if name not in _HOME_OF:
        raise AttributeError(f"module 'quarkfast' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"quarkfast.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
