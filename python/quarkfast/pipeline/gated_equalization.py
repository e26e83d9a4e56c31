"""Schemes with equalization through gates, for models that have layers with a gate between them."""

from __future__ import annotations

from dataclasses import replace

from quarkfast.algorithms.gated_pairs import find_gated_pairs
from quarkfast.config import Scheme
from quarkfast.config.equalization import read_equalization
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.pipeline.prepare import prepare
from quarkfast.quantization.weight_precision import has_eight_bits
from quarkfast.targets import Target
from quarkfast.writers import lowest_opset

__all__ = ["equalized_through_gates"]

_OPTION = "through_gates"


def equalized_through_gates(model: ModelSource, scheme: Scheme, target: Target) -> Scheme | None:
    """Returns a scheme with equalization through gates where the user left that open and the model has such layers.

    Activations of more than 8 bits have digits enough for small channels, and elements of blocks that are floats have
    exponents of their own.
    """
    given = dict(scheme.equalize_options)
    row = scheme.activation.format
    coarse = has_eight_bits(scheme.activation) or (row.is_block and row.is_evenly_spaced)
    if scheme.factors is None or _OPTION in given or not coarse:
        return None
    prepared = prepare(load_model(model), lowest_opset(scheme, target), scheme)
    if next(find_gated_pairs(prepared), None) is None:
        return None
    return replace(scheme, equalize_options=read_equalization({**given, _OPTION: True}))
