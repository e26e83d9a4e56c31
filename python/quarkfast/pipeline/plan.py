"""What a quantization would do to a model, without doing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quarkfast.config import Scheme
from quarkfast.pipeline.model_plan import ModelPlan
from quarkfast.pipeline.resolve import resolve

if TYPE_CHECKING:
    from quarkfast.graph.load import ModelSource

__all__ = ["plan"]


def plan(model: ModelSource, preset: str | Scheme = "A8W8", **options: Any) -> ModelPlan:
    """Says what :func:`quarkfast.quantize` would do with the same arguments; runs nothing and writes nothing.

    Args:
        model: Path of an ONNX file, an ``onnx.ModelProto`` or an ``onnx_ir.Model``; it is not changed.
        preset: Name of a row of :data:`quarkfast.PRESETS`, or a :class:`quarkfast.Scheme`.
        **options: Rows of :data:`quarkfast.OPTIONS` or Quark's keys for them, ``target`` included.

    Raises:
        ConfigError: If the preset or an option does not exist or does not fit.
        ModelError: If the model cannot be read.
        UnsupportedError: If this version cannot do it.

    Example:
        >>> import onnx, quarkfast
        >>> graph = onnx.parser.parse_graph("g (float[1, 4] x) => (float[1, 4] y) { y = Relu(x) }")
        >>> proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
        >>> print(quarkfast.plan(proto))
        preset: A8W8 (activations int8, weights int8, placed for ryzenai-a8w8)
        quantized: 1 Relu
        activations: 2 int8
        recipe: 27 steps
    """
    scheme, target = resolve(preset, options)
    # onnx and onnx_ir, after mistakes in arguments are found
    from quarkfast.pipeline.plan_model import plan_model

    return plan_model(model, scheme, target)
