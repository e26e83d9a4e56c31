"""Float-to-float rewrites that come before quantization, in reading order."""

from __future__ import annotations

from quarkfast.algorithms import equalize, smooth, smoothable
from quarkfast.config.scheme import Factors
from quarkfast.deferred import ir
from quarkfast.graph.name_provenance import carry_over, remember, settle_calls
from quarkfast.graph.opset import choose_ir_version, convert_opset
from quarkfast.transforms.check_weights import check_weights
from quarkfast.transforms.clean import clean, sort
from quarkfast.transforms.fold_batch_norm import fold_batch_norm
from quarkfast.transforms.fold_bias import fold_bias
from quarkfast.transforms.fold_constants import fold_constants
from quarkfast.transforms.infer_types import infer_types
from quarkfast.transforms.inline_functions import inline_functions
from quarkfast.transforms.widen_half import widen_half

__all__ = ["prepare", "prepare_for_weights", "smooth", "smoothable"]


def prepare(model: ir.Model, opset: int, *, factors: Factors | None = None) -> ir.Model:
    """Returns `model` ready to be observed and quantized; the one passed in must not be used any more.

    Args:
        model: A loaded model that nobody else holds.
        opset: The oldest operator set that the quantized model can do with.
        factors: How the factors are rounded that scale channels between layers for the sake of their weights; None
            leaves channels as they are.

    Raises:
        ModelError: If the graph has a cycle or a missing tensor, or a constant holds NaN.
        UnsupportedError: If the model cannot be converted to the operator set.
    """
    model = _prepare_structure(model, opset)
    widen_half(model)
    checked = check_weights(model)
    fold_constants(model)
    fold_batch_norm(model)
    fold_bias(model)
    if factors is not None:
        equalize(model, factors)
    check_weights(model, checked)
    infer_types(model)
    return model


def prepare_for_weights(model: ir.Model, opset: int) -> ir.Model:
    """Returns `model` ready to have its weights stored; the one passed in must not be used any more.

    Reads small constants, so that a weight behind a Reshape is one, and weights of layers in front of a
    BatchNormalization, which onnxruntime could not fold into codes any more. No large matrix is read.

    Raises:
        ModelError: If the graph has a cycle or a missing tensor.
        UnsupportedError: If the model cannot be converted to the operator set.
    """
    model = _prepare_structure(model, opset)
    fold_constants(model)
    fold_batch_norm(model)
    return model


def _prepare_structure(model: ir.Model, opset: int) -> ir.Model:
    sort(model)
    remember(model)
    inline_functions(model)
    settle_calls(model)
    converted = convert_opset(model, opset)
    carry_over(model, converted)
    choose_ir_version(converted)
    clean(converted)
    return converted
