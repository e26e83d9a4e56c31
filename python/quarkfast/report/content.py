"""What the page shows, as plain data: nothing here knows a model or a runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quarkfast.evaluate.tensor_comparison import TensorComparison
from quarkfast.quantization.record_plan import Records

__all__ = ["Content"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What is known of a quantization.

    Attributes:
        document: What the JSON report holds: `quarkfast.Summary.to_dict`, and perhaps ``model``, ``output``,
            ``total_seconds``, ``verification`` and ``latency``.
        facts: The rows of the summary, names and texts.
        records: Every node and quantized tensor.
        sizes: What the bytes of the result hold -> how many.
        compared: Tensors beside their float originals, in the order in which they are computed; empty where nobody
            measured them.
        samples: Rows on which they were measured.
        not_compared: Which were left out, and why.
        device: Name of the device that the model is for, where this processor simulates it; empty otherwise.
        version: Version of quarkfast.
        made: What made the model -> how: versions, and the scheme as JSON.
    """

    document: Mapping[str, Any]
    facts: Sequence[tuple[str, str]]
    records: Records = field(default_factory=Records)
    sizes: Mapping[str, int] = field(default_factory=dict)
    compared: Sequence[TensorComparison] = ()
    samples: int = 0
    not_compared: Sequence[str] = ()
    device: str = ""
    version: str = ""
    made: Mapping[str, str] = field(default_factory=dict)
