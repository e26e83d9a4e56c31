"""What is quantized, and with which statistics, so that every machine must come to the same bytes.

ONNX Runtime's float kernels differ between processors in the last bits, so nothing here is calibrated by running a
model: the statistics of each tensor are drawn by its name. What a model becomes then depends on our own code alone.
"""

from __future__ import annotations

import hashlib
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import quarkfast
from quarkfast import kernels
from quarkfast.demo.data import MODEL
from quarkfast.statistics import TensorStatistics
from support.block_models import attention_block, branches
from support.operator_models import OPERATORS, operator_model
from support.tiny_models import conv_relu_model
from support.weight_models import weight_layers

# Those that take statistics of activations share one calibration: they make the same float model of a given one.
CALIBRATED = ("A8W8", "A16W8", "U8S8", "XINT8")
OPERATOR_PRESETS = ("A8W8", "A16W8", "U8S8", "XINT8", "DYNAMIC", "BF16", "BFP16", "MX9")

# Of a network of convolutions; those of `COMMON` are given to matrix products as well.
OPTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "channel": ("A8W8", {"per_channel": True}),
    "channel_uint8": ("U8S8", {"per_channel": True}),
    "tensor_dynamic": ("DYNAMIC", {"per_channel": False}),
    "types": ("A8W8", {"activation_type": "uint16", "weight_type": "int4"}),
    "float8": ("A8W8", {"activation_type": "float8_e4m3fn", "weight_type": "float8_e4m3fn"}),
    "asymmetric": ("A8W8", {"activation_symmetric": False, "weight_symmetric": False}),
    "reduce_range": ("U8S8", {"reduce_range": True}),
    "not_equalized": ("A8W8", {"equalize": False}),
    "bias_weight": ("A8W8", {"bias": "weight"}),
    "bias_float": ("U8S8", {"bias": "float"}),
    "float_weights": ("A8W8", {"keep_float_weights": True}),
    "cast": ("BF16", {"bf16_qdq_to_cast": True}),
    "clip": ("BF16", {"bf16_with_clip": True}),
    "scaled": ("FP16", {"activation_scaled": True, "weight_scaled": True}),
    "packed": ("BFP16", {"packed_weights": True}),
    "packed_mx": ("MX6", {"packed_weights": True}),
    "operators": ("A8W8", {"op_types": ["Conv", "Gemm"]}),
    "without_operators": ("A8W8", {"exclude_op_types": ["Relu", "Flatten"]}),
    "layers": ("A8W8", {"layers": [{"op_types": ["Conv"], "weight": {"dtype": "int4", "granularity": "channel"}}]}),
    "percentile": ("U8S8", {"method": "percentile"}),
    "entropy": ("U8S8", {"method": "entropy"}),
    "minmse": ("A8W8", {"method": "minmse"}),
    "distribution": ("A8W8", {"method": "distribution"}),
    "layerwise": ("A8W8", {"method": "layerwise_percentile"}),
    "nonoverflow": ("XINT8", {"method": "nonoverflow"}),
    "weight_minmax": ("A8W8", {"weight_method": "minmax"}),
    "groups": ("INT4_WO", {"group_size": 32}),
    "nbits_asymmetric": ("MATMUL_NBITS", {"weight_symmetric": False, "group_size": 16}),
}

COMMON = frozenset(OPTIONS) - {"operators", "without_operators", "layers"}


@dataclass(frozen=True)
class Case:
    """A model, a preset and options."""

    name: str
    model: Path | onnx.ModelProto = field(repr=False)
    preset: str
    options: Mapping[str, Any] = field(default_factory=dict)


def built_cases() -> Iterator[Case]:
    """Yields the cases that need nothing but this repository."""
    whole = {
        "demo": MODEL,
        "convolutions": conv_relu_model(),
        "layers": weight_layers(np.random.default_rng(3)),
        "attention": attention_block(),
        "branches": branches(),
    }
    for name, model in whole.items():
        for preset in quarkfast.PRESETS:
            yield Case(f"{name}-{preset}", model, preset)
    for option, (preset, options) in OPTIONS.items():
        yield Case(f"demo-{option}", MODEL, preset, options)
        if option in COMMON:
            yield Case(f"layers-{option}", whole["layers"], preset, options)
    for op_type in OPERATORS:
        for preset in OPERATOR_PRESETS:
            yield Case(f"{op_type}-{preset}", operator_model(op_type), preset, {"force_pass_through": True})


def shared_cases(models: Path) -> Iterator[Case]:
    """Yields the cases of the real models in a folder, in the order of their names."""
    for path in sorted(models.glob("*.onnx")):
        for preset in quarkfast.PRESETS:
            yield Case(f"shared-{path.stem}-{preset}", path, preset)


_CALIBRATIONS: dict[tuple[str, str], quarkfast.Calibration] = {}


def quantized(case: Case) -> onnx.ModelProto:
    """Returns the model of a case, quantized."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "quantize: ", UserWarning)  # nothing to quantize is a result as well
        warnings.filterwarnings("ignore", "calibrate: expected every body", UserWarning)
        calibrated = case.preset in CALIBRATED or "activation_scaled" in case.options
        calibration = _calibration(case) if calibrated else None
        return quarkfast.quantize(case.model, preset=case.preset, calibration=calibration, **case.options).proto


def hash_of(case: Case) -> str:
    """Quantizes a case and returns a hash of the model without what tells of its making."""
    proto = quantized(case)
    del proto.metadata_props[:]
    proto.producer_version = ""
    return hashlib.sha256(proto.SerializeToString(deterministic=True)).hexdigest()[:16]


def _calibration(case: Case) -> quarkfast.Calibration | None:
    """Returns statistics drawn for every tensor that the case may observe, None where it observes none."""
    key = case.name.rpartition("-")[0], repr([case.preset, case.options] if case.options else [])
    if key not in _CALIBRATIONS:
        preset = case.preset if case.options else None
        try:
            found = quarkfast.calibrate(case.model, "random", preset=preset, samples=1, histogram=False, **case.options)
        except quarkfast.ModelError:  # it has no tensor to observe
            return None
        tensors = {name: _statistics(name) for name in found.tensors}
        _CALIBRATIONS[key] = replace(found, tensors=tensors, random=False)
    return _CALIBRATIONS[key]


def _statistics(tensor: str) -> Any:
    """Returns what 4,096 values would show that are drawn by the name of the tensor: a third of them never below 0."""
    seed = zlib.crc32(tensor.encode())
    # Integers over a power of two: sums and scales of normal numbers would rest on the C library's functions.
    codes = np.random.default_rng(seed).integers(-(1 << 12), 1 << 12, (4, 4096)).sum(axis=0)
    values = codes.astype(np.float32) / np.float32(1 << (8 + seed % 5))
    histogram = kernels.histogram(np.abs(values) if seed % 3 == 0 else values)
    return TensorStatistics(histogram.range, histogram=histogram)
