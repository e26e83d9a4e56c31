"""The file of recorded hashes."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

RECORD = Path(__file__).parent / "hashes.json"

# They write parts of a model: converted operator sets, folded constants, the file itself.
PACKAGES = ("onnx", "onnx-ir", "onnxscript")


def versions() -> dict[str, str]:
    """Returns the installed versions of the packages that have a hand in the bytes."""
    return {name: metadata.version(name) for name in PACKAGES}
