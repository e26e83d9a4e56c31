"""Writers: a finished plan becomes nodes."""

from quarkfast.writers.dynamic import insert_dynamic
from quarkfast.writers.nodes import lowest_opset
from quarkfast.writers.qdq import insert

__all__ = ["insert", "insert_dynamic", "lowest_opset"]
