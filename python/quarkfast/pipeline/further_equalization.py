"""Schemes with equalization through gates and Clips, for models that have layers with one of these between them."""

from __future__ import annotations

from dataclasses import replace

from quarkfast.algorithms.cross_layer_equalization import CrossLayerEqualizationSettings, has_pairs_through_clip
from quarkfast.algorithms.layer_pairs import find_gated_pairs
from quarkfast.config import Scheme
from quarkfast.config.equalization import read_equalization
from quarkfast.graph.load import ModelSource, load_model
from quarkfast.pipeline.prepare import prepare
from quarkfast.quantization.weight_precision import has_eight_bits
from quarkfast.targets import Target
from quarkfast.writers import lowest_opset

__all__ = ["EQUALIZATION_SETTINGS", "equalized_further", "further_equalization"]

EQUALIZATION_SETTINGS = {"through_gates": "gates", "through_clip": "Clip"}
"""Settings of equalization that samples judge, and what each lets factors pass."""


def further_equalization(scheme: Scheme) -> str | None:
    """Returns what equalization is called that goes through gates or Clips, or None where it goes through neither.

    Example:
        >>> from quarkfast.config import scheme_from
        >>> further_equalization(scheme_from("A8W8", {"equalize_options": {"through_clip": True}}))
        'equalization through Clip'
    """
    given = dict(scheme.equalize_options)
    names = [name for setting, name in EQUALIZATION_SETTINGS.items() if given.get(setting)]
    return f"equalization through {' and '.join(names)}" if names else None


def equalized_further(model: ModelSource, scheme: Scheme, target: Target) -> Scheme | None:
    """Returns a scheme with equalization through gates and Clips where the user left that open and layers ask for it.

    Activations of more than 8 bits have digits enough for small channels, and elements of blocks that are floats have
    exponents of their own.
    """
    given = dict(scheme.equalize_options)
    row = scheme.activation.format
    coarse = has_eight_bits(scheme.activation) or (row.is_block and row.is_evenly_spaced)
    open_ones = [setting for setting in EQUALIZATION_SETTINGS if setting not in given]
    if scheme.factors is None or not coarse or not open_ones:
        return None
    prepared = prepare(load_model(model), lowest_opset(scheme, target), scheme)
    settings = CrossLayerEqualizationSettings(scheme.factors, **given, policy=scheme.policy)
    found = {
        "through_gates": next(find_gated_pairs(prepared), None) is not None,
        "through_clip": has_pairs_through_clip(prepared, settings),
    }
    added = {setting: True for setting in open_ones if found[setting]}
    return replace(scheme, equalize_options=read_equalization({**given, **added})) if added else None
