"""What a quantized model says about its making: no time and no path, so that the same input gives the same bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import quarkfast
from quarkfast.config import Scheme

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["sign"]


def sign(model: ir.Model, scheme: Scheme) -> None:
    """Writes into `model` what made it."""
    model.producer_name = "quarkfast"
    model.producer_version = quarkfast.__version__
    model.metadata_props["quarkfast.scheme"] = json.dumps(scheme.to_dict(), sort_keys=True)
