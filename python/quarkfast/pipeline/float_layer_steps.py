"""The step that leaves layers float whose weights 8 bits cannot carry, where activations are quantized as they come."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace

from quarkfast.config.rules import Change
from quarkfast.graph.placement import Placement
from quarkfast.pipeline.context import Context
from quarkfast.pipeline.weight_precision_steps import choose_form_if_run, note_of
from quarkfast.quantization import place
from quarkfast.quantization.activation_precision import LARGEST_SHARE
from quarkfast.quantization.weight_precision import Form, Weight, weights_of

__all__ = ["leave_layers_float"]

_FLOAT = Form("32 bits", Change.of({"dtype": "float32"}, "weights"), is_free=False)

_REASON = "8 bits of its weight take too much from the outputs"

# 20 dB: what the other weights may make. A float weight takes four times the bytes, and outputs that are poor all the
# same are not worth them: the worst of a hand landmark network went from 18.4 to 16.3 dB for half as many bytes again.
_MOST_LEFT = 0.01


def leave_layers_float(context: Context) -> bool:
    """Leaves the layers float whose weights cost the outputs most, where all weights leave them less than 25 dB.

    They have a quarter of the bytes of weights at the most, and outputs have half of the noise with them, and 20 dB at
    least (`quarkfast.quantization.weight_precision.choose_forms`). Both weights of an LSTM stay where one has to.
    """
    weights = weights_of(context.model, context.placement, context.scheme)
    choice = choose_form_if_run(context, weights, _FLOAT)
    if choice is None or not choice.names or choice.after > _MOST_LEFT:
        return False
    nodes = _readers(each for each in weights if each.name in choice.names[_FLOAT.name])
    left = [each for each in weights if not nodes.isdisjoint(_readers([each]))]
    share = sum(each.values.nbytes for each in left) / sum(each.values.nbytes for each in weights)
    if share > LARGEST_SHARE:
        return False
    context.placement = _without(context, nodes)
    names = tuple(each.name for each in left)
    choice = replace(choice, names={_FLOAT.name: names}, shares={_FLOAT.name: share})
    context.notes.append(note_of(context, choice, len(weights), otherwise=""))
    return False


def _readers(weights: Iterable[Weight]) -> set[str]:
    return {edge.node for each in weights for edge in each.slot.edges}


def _without(context: Context, nodes: Collection[str]) -> Placement:
    """Returns the placement with some layers left float, and why."""
    exclude = (*context.scheme.exclude, *(f"^{re.escape(name)}$" for name in sorted(nodes)))
    found = place(context.model, replace(context.scheme, exclude=exclude), context.target)
    left_float = (each._replace(reason=_REASON) if each.node in nodes else each for each in found.left_float)
    return replace(found, left_float=tuple(left_float))
