"""What calibration looks at: the tensors of every scheme, in half precision and inside bodies too; and channels."""

from __future__ import annotations

from collections.abc import Sequence

from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.graph.access import array_of
from quarkfast.graph.placement import ConstantSlot, Placement
from quarkfast.graph.selection import Choices
from quarkfast.graph.subgraphs import graphs_by_path, values_by_path
from quarkfast.quantization.codes import codes_of
from quarkfast.quantization.compute_qparams import constant_quantizer
from quarkfast.quantization.place import place_graph
from quarkfast.quantization.portable_weights import channel_axes, integer_layers, is_portable, overflows
from quarkfast.targets import Target

__all__ = ["observed_channels", "observed_tensors"]

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


def observed_tensors(model: ir.Model, schemes: Sequence[tuple[Scheme, Target]]) -> list[str]:
    """Returns the tensors that any of `schemes` would quantize, by path and in the model's order.

    1. Models in float16 and bfloat16 are looked at as they are, though no rule quantizes them yet.
    2. The bodies of If, Loop and Scan stay float; the same rules tell what there is to see in them.
    3. A tensor that a body reads from around it belongs to the graph that makes it.

    Args:
        model: A prepared model.
        schemes: Those whose activations have scales, each with its target.
    """
    made, paths = values_by_path(model), [path for path, _ in graphs_by_path(model.graph)]
    wanted: set[str] = set()
    for scheme, target in schemes:
        choices = Choices(model, scheme)
        for path, graph in graphs_by_path(model.graph):
            around = [each for each in paths if path.startswith(each)]
            for name in place_graph(graph, scheme, target, choices, _FLOATS).observed:
                wanted.add(max((each + name for each in around if each + name in made), key=len, default=""))
    return [name for name, (value, _) in made.items() if name in wanted and not _is_constant_node(value)]


def observed_channels(
    model: ir.Model, placement: Placement, scheme: Scheme, target: Target, whatever: bool = False
) -> dict[str, int]:
    """Returns the tensors that calibration should look at channel by channel, and the axis of the channels of each.

    They are what layers multiply whose sums may leave 16 bits; the largest magnitude of each channel decides it.

    Args:
        model: A prepared model.
        placement: Where pairs go.
        scheme: The specs.
        target: Whether processor kernels run the result.
        whatever: Whether to name the tensors of all layers, for a calibration that goes with any options.
    """
    if not is_portable(scheme, target) or scheme.encoding == "dynamic":
        return {}
    layers = list(integer_layers(model, placement, scheme))
    known: dict[ConstantSlot, bool] = {}
    for layer in layers if not whatever else ():
        if layer.slot not in known:
            values = array_of(model.graph.initializers[layer.slot.tensor])
            quantizer = constant_quantizer(layer.slot, values, placement.fixed.get(layer.slot.tensor))
            known[layer.slot] = overflows(layer, codes_of(values, quantizer))
    axes = channel_axes(layers)
    return {layer.data: axes[layer.data] for layer in layers if layer.data in axes and (whatever or known[layer.slot])}


def _is_constant_node(value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.op_type == "Constant"
