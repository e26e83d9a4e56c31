"""Observers inside the blocked layout that ONNX Runtime gives to convolutions.

For the sake of vectors ONNX Runtime keeps the activations of convolutions in blocks of channels (NCHWc) from one
operator that knows the layout to the next. An Observe operator does not, so in front of each ONNX Runtime would put a
ReorderOutput and behind it a ReorderInput: twice the whole activation through memory. Yet statistics ask for no order.
So ONNX Runtime optimizes the model with the tensors as outputs, which keeps each of them whole; then observers are put
into that graph, behind the blocks where there are some. Every operator computes the same values as before. The weights
of that graph go from one session to the other through a file, which is mapped; as protobufs they would be in memory
five times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import onnx

from quarkfast import _core, ort
from quarkfast.calibration.observers import add_observers
from quarkfast.errors import ModelError

__all__ = ["move_into_blocks", "observed_session"]

_DOMAIN = "com.microsoft.nchwc"
# Every block of ONNX Runtime (4, 8 or 16 channels, as the processor likes) divides this. Other channels are padded, and
# the padding must not be counted.
_CHANNELS = 16
# Constants of fewer bytes stay in the graph, among them shapes and axes, which ONNX Runtime wants to see.
_LEAST_IN_FILE = 1 << 10
# What a ReorderInput takes is a multiple of this.
_ORDERABLE = 4
# The optimized weights are written to a file; beyond this many that would take long.
_MOST_WEIGHTS = 2**26


def observed_session(
    model: onnx.ModelProto,
    tensors: Sequence[str],
    collector: int,
    threads: int | None,
    temporary: Path,
    folder: Path | None = None,
    axes: Mapping[int, int] = MappingProxyType({}),
) -> Any:
    """Returns a session that runs a model with observers; slot `i` of the collector is tensor `i`.

    Args:
        model: The model; observers may be put into it.
        tensors: Names of graph inputs and of outputs of nodes, those of bodies by path.
        collector: Id of an open collector.
        threads: Threads of ONNX Runtime within an operator; None leaves the choice to it.
        temporary: A folder for files that the session may read as long as it is open.
        folder: Where the files are that hold its constants, or None if it holds them itself.
        axes: Axis of the channels of slots whose magnitudes are gathered channel by channel, which asks for an order.

    Raises:
        ModelError: If ONNX Runtime rejects the model.
    """
    optimized = _optimized(model, tensors, temporary, folder) if _convolves(model.graph) else None
    if optimized is not None:
        _core.release_memory()  # of the session that has optimized
        names = move_into_blocks(optimized.graph, tensors, frozenset(tensors[slot] for slot in axes))
        if names is not None and len(set(names)) == len(names):  # else one value stands for two tensors
            add_observers(optimized, names, collector, axes)
            return _session(optimized, threads, optimize=False, folder=temporary)
    add_observers(model, tensors, collector, axes)
    return _session(model, threads, folder=folder)


def _session(model: onnx.ModelProto, threads: int | None, optimize: bool = True, folder: Path | None = None) -> Any:
    options = ort.session_options(threads=threads, optimize=optimize, spinning=False)
    options.enable_mem_pattern = False  # one block for all activations, which rounds up to more than they need
    return ort.inference_session(model.SerializeToString(), options, folder=folder)


def _convolves(graph: onnx.GraphProto) -> bool:
    """Whether there are convolutions, and no bodies, whose values cannot be handed out."""
    bodies = any(each.type == onnx.AttributeProto.GRAPH for node in graph.node for each in node.attribute)
    if bodies or not any(node.op_type == "Conv" for node in graph.node):
        return False
    weights = sum(int(math.prod(tensor.dims)) for tensor in graph.initializer)
    return weights <= _MOST_WEIGHTS


def _optimized(
    model: onnx.ModelProto, tensors: Sequence[str], temporary: Path, folder: Path | None = None
) -> onnx.ModelProto | None:
    """Returns the model as ONNX Runtime optimizes it, or None where it cannot write it, such as on a full disk.

    Its weights are in a file of the folder `temporary`.
    """
    given = {value.name for value in (*model.graph.input, *model.graph.output)}
    known = {value.name: value for value in model.graph.value_info}
    outputs = len(model.graph.output)
    model.graph.output.extend(
        known.get(name) or onnx.ValueInfoProto(name=name) for name in tensors if name not in given
    )
    del model.graph.value_info[:]  # onnxruntime infers them again, in less time than it takes to read them
    data = model.SerializeToString()
    del model.graph.output[outputs:]
    path = temporary / "optimized.onnx"
    # It will not run: threads would spin until it is closed, for as long as all the rest of this takes.
    options = ort.session_options(threads=1)
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "optimized.weights")
    options.add_session_config_entry(
        "session.optimized_model_external_initializers_min_size_in_bytes", str(_LEAST_IN_FILE)
    )
    options.optimized_model_filepath = str(path)
    try:
        ort.inference_session(data, options, folder=folder)
        optimized = onnx.ModelProto.FromString(path.read_bytes())
    except (ModelError, OSError):
        return None
    del optimized.graph.output[outputs:]
    there = {name for node in optimized.graph.node for name in node.output} | given
    return optimized if there.issuperset(tensors) else None


def move_into_blocks(
    graph: onnx.GraphProto, tensors: Sequence[str], ordered: frozenset[str] = frozenset()
) -> list[str] | None:
    """Finds what holds the values of tensors in a graph that ONNX Runtime has optimized.

    A tensor that is written out of blocks without padding is in the blocks; where nothing else reads it, it is not
    written any more. One that is written out of padded blocks is put into blocks again for all that read them, so
    that an observer behind it stands in the way of its values and not aside, where it would run last.

    Args:
        graph: The graph; it has all the tensors, and is changed in place.
        tensors: Names of the tensors.
        ordered: Those whose channels must lie in their order, and so out of blocks.

    Returns:
        The names of values to observe in their place, or None if padded blocks cannot be put back; then the graph is
        of no use.
    """
    written = {node.output[0]: node for node in graph.node if _is(node, "ReorderOutput")}
    inside = {name: written[name].input[0] for name in tensors if name in written and name not in ordered}
    inside = {name: blocks for name, blocks in inside.items() if _unpadded(written[name])}
    outside = set(tensors) - set(inside)
    if not all(_put_back(graph, written[name]) for name in outside & set(written)):
        return None
    read = {name for node in graph.node for name in node.input} | {value.name for value in graph.output} | outside
    nodes = [node for node in graph.node if not _is(node, "ReorderOutput") or node.output[0] in read]
    # Types and shapes of values that have gone would be an error; ONNX Runtime infers all of them again.
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    return [inside.get(name, name) for name in tensors]


def _put_back(graph: onnx.GraphProto, reorder: onnx.NodeProto) -> bool:
    """Makes all that read the blocks of a tensor read it, put into blocks again; returns whether that can be done."""
    blocks, tensor = reorder.input[0], reorder.output[0]
    again = f"{tensor}, in blocks again"
    readers = [node for node in graph.node if blocks in node.input and node.output[0] != tensor]
    for node in readers:
        node.input[:] = [again if name == blocks else name for name in node.input]
    if readers:
        # At the end, where only the order of the list is wrong: ONNX Runtime sorts nodes by what they read.
        graph.node.append(onnx.NodeProto(op_type="ReorderInput", domain=_DOMAIN, input=[tensor], output=[again]))
    return not readers or _channels(reorder) % _ORDERABLE == 0


def _is(node: onnx.NodeProto, op_type: str) -> bool:
    return (node.domain, node.op_type) == (_DOMAIN, op_type)


def _unpadded(reorder: onnx.NodeProto) -> bool:
    return _channels(reorder) % _CHANNELS == 0


def _channels(reorder: onnx.NodeProto) -> int:
    """Returns the number of channels of what a ReorderOutput writes, 1 if it writes them last."""
    integers = {attribute.name: attribute.i for attribute in reorder.attribute}
    return 1 if integers.get("channels_last") else integers["channels"]
