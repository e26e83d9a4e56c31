"""What the outputs of a quantized model would gain if single tensors were not rounded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from quarkfast.calibration.data import Feed
from quarkfast.deferred import ir
from quarkfast.evaluate.output_judge import OutputJudge
from quarkfast.evaluate.tensor_comparison import Prediction
from quarkfast.graph.access import array_of
from quarkfast.graph.builder import GraphBuilder
from quarkfast.graph.save import to_proto
from quarkfast.graph.traced_pairs import traced_pairs

__all__ = ["predict_gains"]


def predict_gains(
    reference: ir.Model, model: ir.Model, known: Mapping[str, ir.Value], tensors: Sequence[str], feeds: Sequence[Feed]
) -> Prediction:
    """Runs a quantized model without the pairs of single tensors, and without those of all of them or of
    all that gain something alone.

    Args:
        reference: The float model.
        model: The quantized model, without local functions.
        known: Tensors of the float model by name.
        tensors: Names of tensors as `quarkfast.graph.traced_pairs` finds them.
        feeds: Samples.
    """
    judge = OutputJudge(to_proto(reference).SerializeToString(), feeds, "sqnr", None)

    def sqnr(names: Collection[str]) -> float:
        return judge.judge(to_proto(_without(model, known, names)).SerializeToString()).sqnr

    now, alone = sqnr(()), tuple((name, sqnr({name})) for name in tensors)
    gaining = {name for name, ratio in alone if ratio > now}
    return Prediction(now, alone, sqnr(set(tensors)), sqnr(gaining) if gaining else now)


def _without(model: ir.Model, known: Mapping[str, ir.Value], names: Collection[str]) -> ir.Model:
    """Returns a copy of `model` in which tensors of these names are read as they were before they were rounded."""
    copy = model.clone()
    builder = GraphBuilder(copy)
    for pair in list(traced_pairs(copy, known)):
        if pair.tensor in names:
            exact = pair.exact
            if exact is None and pair.original is not None:
                exact = builder.initializer(pair.tensor, array_of(pair.original))
            if exact is not None:
                ir.convenience.replace_all_uses_with(pair.rounded, exact, replace_graph_outputs=True)
    return copy
