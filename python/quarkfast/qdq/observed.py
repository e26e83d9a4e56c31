"""Which tensors calibration looks at: those of every scheme, in half precision and inside bodies too."""

from __future__ import annotations

from collections.abc import Sequence

from quarkfast.config import Scheme
from quarkfast.deferred import ir
from quarkfast.graph.bodies import graphs_by_path, values_by_path
from quarkfast.graph.choices import Choices
from quarkfast.qdq.place import place_graph

__all__ = ["observed_tensors"]

_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


def observed_tensors(model: ir.Model, schemes: Sequence[Scheme]) -> list[str]:
    """Returns the tensors that any of `schemes` would quantize, by path and in the model's order.

    1. Models in float16 and bfloat16 are looked at as they are, though no rule quantizes them yet.
    2. The bodies of If, Loop and Scan stay float; the same rules tell what there is to see in them.
    3. A tensor that a body reads from around it belongs to the graph that makes it.

    Args:
        model: A prepared model.
        schemes: Those whose activations have scales.
    """
    made, paths = values_by_path(model), [path for path, _ in graphs_by_path(model.graph)]
    wanted: set[str] = set()
    for scheme in schemes:
        choices = Choices(model, scheme)
        for path, graph in graphs_by_path(model.graph):
            around = [each for each in paths if path.startswith(each)]
            for name in place_graph(graph, scheme, choices, _FLOATS).observed:
                wanted.add(max((each + name for each in around if each + name in made), key=len, default=""))
    return [name for name, (value, _) in made.items() if name in wanted and not _is_constant_node(value)]


def _is_constant_node(value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.op_type == "Constant"
