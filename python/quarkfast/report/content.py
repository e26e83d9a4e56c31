"""What the page shows, as plain data: nothing here knows a model or a runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from quarkfast.quantization.records import Records

__all__ = ["ComparedRow", "Content"]


class ComparedRow(Protocol):
    """One tensor of the quantized model beside its float original."""

    @property
    def name(self) -> str:
        """Name of the tensor, as in the float model."""

    @property
    def kind(self) -> str:
        """``"weight"`` for a weight, which nothing accumulates in; any other word for what is computed."""

    @property
    def node(self) -> str:
        """Name of the node of the float model that computes it; empty for inputs and weights."""

    @property
    def sqnr(self) -> float:
        """Ratio of signal to noise in dB as it accumulates up to this tensor."""

    @property
    def own_sqnr(self) -> float | None:
        """Ratio in dB that its own rounding alone leaves; None where unknown."""

    @property
    def range_used(self) -> float | None:
        """Share of the codes, 0 to 1, between the least and the greatest value; None where unknown."""

    @property
    def worst_channels(self) -> Sequence[tuple[int, float]]:
        """Indices of channels and their ratio in dB, the worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What is known of a quantization.

    Attributes:
        document: What the JSON report holds: `quarkfast.Summary.to_dict`, and perhaps ``model``, ``output``,
            ``total_seconds`` and ``verification``.
        facts: The rows of the summary, names and texts.
        records: Every node and quantized tensor.
        sizes: What the bytes of the result hold -> how many.
        compared: Tensors beside their float originals, in the order in which they are computed; empty where nobody
            measured them.
        version: Version of quarkfast.
        made: What made the model -> how: versions, and the scheme as JSON.
    """

    document: Mapping[str, Any]
    facts: Sequence[tuple[str, str]]
    records: Records = field(default_factory=Records)
    sizes: Mapping[str, int] = field(default_factory=dict)
    compared: Sequence[ComparedRow] = ()
    version: str = ""
    made: Mapping[str, str] = field(default_factory=dict)
