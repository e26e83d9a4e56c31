"""Observers in a model, also between convolutions in the runtime's blocked layout (NCHWc)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import onnx

from quarkfast import _core, ort
from quarkfast.errors import ModelError

__all__ = ["add_observers", "move_into_blocks", "observed_session"]

_DOMAIN = "quarkfast"


def add_observers(
    model: onnx.ModelProto, tensors: Sequence[str], collector: int, axes: Mapping[int, int] = MappingProxyType({})
) -> None:
    """Puts an Observe operator behind each of `tensors`, in place; slot `i` of the collector is tensor `i`.

    Args:
        model: The model. Its outputs keep their names.
        tensors: Names of graph inputs and of outputs of nodes, those of bodies by path.
        collector: Id of an open collector.
        axes: Axis of the channels of slots whose magnitudes are gathered channel by channel.
    """
    _observe(model.graph, {name: slot for slot, name in enumerate(tensors)}, collector, axes, "")
    if not any(each.domain == _DOMAIN for each in model.opset_import):
        model.opset_import.append(onnx.OperatorSetIdProto(domain=_DOMAIN, version=1))


def _observe(
    graph: onnx.GraphProto, slots: Mapping[str, int], collector: int, axes: Mapping[int, int], path: str
) -> None:
    def observer(tensor: str, source: str, target: str) -> onnx.NodeProto:
        node = onnx.NodeProto(op_type="Observe", domain=_DOMAIN, name=f"{path}{tensor}, observer")
        node.input.append(source)
        node.output.append(target)
        node.attribute.add(name="collector", type=onnx.AttributeProto.INT, i=collector)
        slot = slots[path + tensor]
        node.attribute.add(name="slot", type=onnx.AttributeProto.INT, i=slot)
        if slot in axes:
            node.attribute.add(name="axis", type=onnx.AttributeProto.INT, i=axes[slot])
        return node

    nodes = []
    for value in graph.input:
        # The input must keep its name, so all its readers read the output of the observer.
        if path + value.name in slots:
            _rename(graph, value.name, f"{value.name}, observed")
            nodes.append(observer(value.name, value.name, f"{value.name}, observed"))
    for node in graph.node:
        nodes.append(node)
        for name, body in _bodies(node):
            _observe(body, slots, collector, axes, f"{path}{node.name}:{name}:")
        for index, tensor in enumerate(node.output):
            # The output of the observer takes over the name, so that readers need no change.
            if tensor and path + tensor in slots:
                node.output[index] = f"{tensor}, not yet observed"
                nodes.append(observer(tensor, node.output[index], tensor))
    del graph.node[:]
    graph.node.extend(nodes)


def _rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Makes all nodes that read `old` read `new`, those of bodies too."""
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name == old:
                node.input[index] = new
        for _, body in _bodies(node):
            _rename(body, old, new)


def _bodies(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    return ((each.name, each.g) for each in node.attribute if each.type == onnx.AttributeProto.GRAPH)


_BLOCKED = "com.microsoft.nchwc"
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
        graph.node.append(onnx.NodeProto(op_type="ReorderInput", domain=_BLOCKED, input=[tensor], output=[again]))
    return not readers or _channels(reorder) % _ORDERABLE == 0


def _is(node: onnx.NodeProto, op_type: str) -> bool:
    return (node.domain, node.op_type) == (_BLOCKED, op_type)


def _unpadded(reorder: onnx.NodeProto) -> bool:
    return _channels(reorder) % _CHANNELS == 0


def _channels(reorder: onnx.NodeProto) -> int:
    """Returns the number of channels of what a ReorderOutput writes, 1 if it writes them last."""
    integers = {attribute.name: attribute.i for attribute in reorder.attribute}
    return 1 if integers.get("channels_last") else integers["channels"]
