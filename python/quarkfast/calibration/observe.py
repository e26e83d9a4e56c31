"""Ranges of activations, gathered natively while ONNX Runtime runs the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import onnx_ir as ir

from quarkfast import _core, ort
from quarkfast.calibration.inputs import Feed, rows_of
from quarkfast.errors import CalibrationError, ModelError
from quarkfast.graph.edit import splice
from quarkfast.graph.names import Names
from quarkfast.graph.save import serialize
from quarkfast.kernels import Range

__all__ = ["add_observers", "observe"]

_DOMAIN = "quarkfast"


def observe(
    model: ir.Model, tensors: Sequence[str], feeds: Iterable[Feed], report: Callable[[int], None] | None = None
) -> tuple[dict[str, Range], int]:
    """Runs `model` on `feeds` and returns the range of each of `tensors`, and the number of samples.

    An Observe operator behind each tensor passes it through without a copy and adds it to the statistics of its slot,
    so memory stays that of inference however many samples there are.

    Args:
        model: A prepared model; it is not changed.
        tensors: Names of float32 tensors of its main graph.
        feeds: Checked feeds.
        report: Called after each run with the number of samples so far: rows of the first input.

    Raises:
        CalibrationError: If ONNX Runtime cannot run the model on a feed.
    """
    collector = _core.Collector(len(tensors))
    observed = model.clone()
    add_observers(observed, tensors, collector.id)
    session = ort.inference_session(serialize(observed))
    # Outputs are fetched and dropped; asking for one of them would save nothing, ONNX Runtime runs every node.
    samples = 0
    # All outputs are fetched and dropped: ONNX Runtime runs every node whatever is asked for.
    for count, feed in enumerate(feeds, 1):
        try:
            ort.run(session, feed)
        except ModelError as error:
            raise CalibrationError(f"calibration data: sample {count}: {error}") from error
        samples += rows_of(feed)
        if report is not None:
            report(samples)
    return {name: Range(**collector.range(slot)) for slot, name in enumerate(tensors)}, samples


def add_observers(model: ir.Model, tensors: Sequence[str], collector: int) -> None:
    """Puts an Observe operator behind each of `tensors`, in place; slot `i` of the collector is tensor `i`."""
    names = Names.of(model)
    values = ir.convenience.create_value_mapping(model.graph)
    for slot, tensor in enumerate(tensors):
        value = values[tensor]
        node = ir.node("Observe", [value], {"collector": collector, "slot": slot}, domain=_DOMAIN)
        node.name = names.fresh(f"{tensor}_Observe")
        output = node.outputs[0]
        output.name = names.fresh(f"{tensor}_Observe_Output")
        output.type, output.shape = value.type, value.shape
        splice(model.graph, value, [node], output, names.fresh(f"{tensor}_Observe_Input"))
    model.opset_imports.setdefault(_DOMAIN, 1)
