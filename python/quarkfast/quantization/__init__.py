"""Quantization: where it goes (placement), with which scales and zero points, and what there is to say about it."""

from quarkfast.quantization.bias import FloatBias
from quarkfast.quantization.bounded_functions import BoundedResult, bounded_results, note_of_whole, whole_ranges
from quarkfast.quantization.compute_qparams import (
    KnownConstant,
    compute_qparams,
    needs_ranges,
    observed_channels,
    observed_tensors,
)
from quarkfast.quantization.diagnostics import Diagnostics, diagnose
from quarkfast.quantization.function_inputs import fit_function_inputs, function_inputs, notes_of_cuts
from quarkfast.quantization.place import place
from quarkfast.quantization.plan import Plan, QuantizedBlocks, QuantizedTensor, make_plan
from quarkfast.quantization.portable_weights import is_portable, saturation_note
from quarkfast.quantization.record_plan import Records, record_nodes, record_plan
from quarkfast.quantization.scale_conflicts import resolve_conflicts
from quarkfast.quantization.tail_ranges import few_valued, note_of_headroom, note_of_tails, widen_tails, with_headroom

__all__ = [
    "BoundedResult",
    "Diagnostics",
    "FloatBias",
    "KnownConstant",
    "Plan",
    "QuantizedBlocks",
    "QuantizedTensor",
    "Records",
    "bounded_results",
    "compute_qparams",
    "diagnose",
    "few_valued",
    "fit_function_inputs",
    "function_inputs",
    "is_portable",
    "make_plan",
    "needs_ranges",
    "note_of_headroom",
    "note_of_tails",
    "note_of_whole",
    "notes_of_cuts",
    "observed_channels",
    "observed_tensors",
    "place",
    "record_nodes",
    "record_plan",
    "resolve_conflicts",
    "saturation_note",
    "whole_ranges",
    "widen_tails",
    "with_headroom",
]
