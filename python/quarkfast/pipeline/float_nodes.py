"""Which nodes stay float so that activations keep what their codes lose, within a part of the bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import onnx

from quarkfast.evaluate.partial_model import Feed
from quarkfast.pipeline.wide_bytes import bits_of, share_above, sized_weights, stored_activations
from quarkfast.quantization import Records
from quarkfast.quantization.record_plan import NodeRecord

__all__ = ["nodes_left_float"]

_FLOAT_BITS = 32


def nodes_left_float(
    model: bytes, records: Records, ranked: Sequence[str], feed: Feed, largest_share: float, bits: int = 8
) -> list[str]:
    """Returns names of the quantized nodes without which activations have no pair, in the order in which they run.

    A tensor has none where the node that computes it and all that read it stay float, and with them what a device
    computes along with these. Tensors are taken in their order, but for one with which too much of the bytes of
    activations or of weights would have more than `bits`; weights that all have more may stay float.

    Args:
        model: The quantized model.
        records: What is known of its nodes and tensors.
        ranked: Names of activations that have codes, what matters most first.
        feed: A sample, which decides sizes.
        largest_share: At most this part of either may have more.
        bits: The most that count as few.

    Raises:
        ModelError: If ONNX Runtime does not take the model or the sample.
    """
    graph, found = _Graph(model, records, feed, largest_share, bits), set[int]()
    for name in ranked:
        wider = found | graph.around(name)
        if wider > found and graph.fits(wider):
            found = wider
    return [records.nodes[index].name for index in sorted(found)]


class _Graph:
    """Nodes by their index, and what has codes between them."""

    def __init__(self, model: bytes, records: Records, feed: Feed, largest_share: float, bits: int) -> None:
        self._records, self._nodes, self._largest, self._bits = records, records.nodes, largest_share, bits
        self._makers = {name: index for index, node in enumerate(self._nodes) for name in node.outputs}
        self._readers: dict[str, list[int]] = {}
        for index, node in enumerate(self._nodes):
            for name in node.inputs:
                self._readers.setdefault(name, []).append(index)
        self._quantized = sum(map(_is_quantized, self._nodes))
        float_nodes = tuple(node._replace(state="float") if _is_quantized(node) else node for node in self._nodes)
        self._sizes = stored_activations(model, records._replace(nodes=float_nodes), feed)
        self._weights = sized_weights(onnx.load_model_from_string(model).graph, records)

    def around(self, tensor: str) -> set[int]:
        """Returns the quantized nodes that compute a tensor or read it, and those fused with them."""
        found, waiting = set[int](), self._ends(tensor)
        while waiting:
            index = waiting.pop()
            if index not in found and _is_quantized(self._nodes[index]):
                found.add(index)
                node = self._nodes[index]
                fused = [name for name in (*node.inputs, *node.outputs) if self._is_fused(name)]
                waiting += [each for name in fused for each in self._ends(name)]
        return found

    def fits(self, found: Collection[int]) -> bool:
        """Whether no more of the bytes of each kind has more bits than may, or than had them before.

        Some node has to stay quantized.
        """
        return len(found) < self._quantized and all(
            share_above(sized(found), self._bits) <= max(self._largest, share_above(sized(()), self._bits))
            for sized in (self._stored, self._held)
        )

    def _ends(self, tensor: str) -> list[int]:
        makers = [self._makers[tensor]] if tensor in self._makers else []
        return [*makers, *self._readers.get(tensor, ())]

    def _is_fused(self, tensor: str) -> bool:
        """Whether a quantized node computes a tensor along with the one that reads it, without a pair."""
        made = tensor in self._makers and _is_quantized(self._nodes[self._makers[tensor]])
        return made and tensor not in self._records.tensors

    def _stored(self, found: Collection[int]) -> Iterable[tuple[int, int]]:
        for name, size in self._sizes.items():
            maker, own = self._makers.get(name), name in self._records.tensors
            if own and any(index not in found and _is_quantized(self._nodes[index]) for index in self._ends(name)):
                yield size, bits_of(self._records, name)
            elif maker is not None and (own or maker in found or not _is_quantized(self._nodes[maker])):
                yield size, _FLOAT_BITS

    def _held(self, found: Collection[int]) -> Iterable[tuple[int, int]]:
        read = {name for index in found for name in self._nodes[index].inputs}
        for name, (size, bits) in self._weights.items():
            yield size, _FLOAT_BITS if name in read else bits


def _is_quantized(node: NodeRecord) -> bool:
    return node.state == "quantized"
